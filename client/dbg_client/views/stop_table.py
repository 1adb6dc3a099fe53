"""The stops of a job as a table: where each is armed, who has not loaded it, and who was there. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dbg_client.views.naming import Naming, clip
from dbg_wire.errors import printable
from dbg_wire.records.line_breakpoints import StopState
from dbg_wire.records.ranks import RankInfo

MAX_NAMES = 60
"""Columns for the names of a set of ranks."""

MAX_STOP = 300
"""Characters that are shown of a stop with its condition."""


@dataclass(frozen=True, slots=True)
class RankStops:
    """Hold what one rank said of its stops, or why it said nothing."""

    rank: RankInfo
    states: Sequence[StopState] = ()
    why: str = ""


def show_stops(said: Sequence[RankStops]) -> str:
    """Return the lines for each stop, and for the ranks that said nothing."""
    naming = Naming([one.rank for one in said])
    stops: defaultdict[str, list[tuple[RankInfo, StopState]]] = defaultdict(list)
    silent: defaultdict[str, list[RankInfo]] = defaultdict(list)
    for one in said:
        for state in one.states:
            stops[state.stop].append((one.rank, state))
        if one.why:
            silent[one.why].append(one.rank)
    lines = [line for stop, states in stops.items() for line in _lines_of(stop, states, naming)]
    if not stops and len(said) > sum(map(len, silent.values())):
        lines.append("The job was started with no --stop-at and no --stop-in.")
    lines += [f"{_named(ranks, naming)}: {printable(why)}" for why, ranks in silent.items()]
    return "".join(f"{line}\n" for line in lines)


def _lines_of(stop: str, states: Sequence[tuple[RankInfo, StopState]], naming: Naming) -> list[str]:
    placed: defaultdict[int | None, list[RankInfo]] = defaultdict(list)
    problems: defaultdict[str, list[RankInfo]] = defaultdict(list)
    not_loaded = []
    for rank, state in states:
        if state.problem:
            problems[state.problem].append(rank)
        elif state.armed:
            placed[state.line].append(rank)
        else:
            not_loaded.append(rank)
    parts = [f"armed{_moved(stop, line)} in {_share(ranks, states, naming)}" for line, ranks in placed.items()]
    if not_loaded:
        parts.append(f"not loaded yet in {_share(not_loaded, states, naming)}")
    parts += [f"{printable(why)}, in {_share(ranks, states, naming)}" for why, ranks in problems.items()]
    return [printable(stop, MAX_STOP), *(f"  {part}" for part in parts), f"  {_hits(states, naming)}"]


def _moved(stop: str, line: int | None) -> str:
    """Return where the code holds the stop, if that is another line than the one that was typed."""
    typed = stop.partition(",")[0].rpartition(":")[2].strip()
    return "" if line is None or typed == str(line) else f" at line {line}"


def _share(ranks: Sequence[RankInfo], states: Sequence[tuple[RankInfo, StopState]], naming: Naming) -> str:
    """Return how many of all ranks these are, and which if it is not all of them."""
    if len(ranks) == len(states):
        return "all ranks" if len(ranks) > 1 else _named(ranks, naming)
    return f"{len(ranks)} of {len(states)} ranks ({clip(naming.names(ranks), MAX_NAMES)})"


def _named(ranks: Sequence[RankInfo], naming: Naming) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {clip(naming.names(ranks), MAX_NAMES)}"


def _hits(states: Sequence[tuple[RankInfo, StopState]], naming: Naming) -> str:
    by_count: defaultdict[int, list[RankInfo]] = defaultdict(list)
    for rank, state in states:
        by_count[state.hits].append(rank)
    if set(by_count) == {0}:
        return "hits: none"
    counted = sorted(by_count.items(), reverse=True)
    return "hits: " + "; ".join(f"{count or 'none'} in {_share(ranks, states, naming)}" for count, ranks in counted)
