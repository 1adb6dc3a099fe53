"""The answers of ranks to one question, and the stops of a job, as text and JSON. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_client.views.naming import Naming, clip
from dbg_wire.errors import printable
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.breakpoints import StopState
from dbg_wire.records.ranks import RankInfo

MAX_NAMED = 8
"""Ranks with the same answer that are named one by one; more are counted."""

ANSWERED = frozenset({Kind.VALUE, Kind.ERROR})
"""Kinds of answers that the rank itself gave; the broker gives the other kinds for a rank that did not answer."""

MAX_NAMES = 60
"""Columns for the names of a set of ranks."""

MAX_STOP = 300
"""Characters that are shown of a stop with its condition."""


def show_answers(answers: Sequence[RankAnswer], ranks: Mapping[str, RankInfo]) -> str:
    """Return a line for each rank, ranks beyond MAX_NAMED with the same answer counted in one; most frequent first."""
    groups: defaultdict[tuple[Kind, str], list[str]] = defaultdict(list)
    for answer in answers:
        groups[answer.kind, answer.text].append(_address(answer, ranks))
    lines = []
    for (kind, text), addresses in sorted(groups.items(), key=lambda item: -len(item[1])):
        said = _said(kind, text)
        if len(addresses) > MAX_NAMED:
            lines.append(f"{len(addresses)} ranks {said}")
        else:
            lines += [f"{address} {said}" for address in addresses]
    return "".join(f"{line}\n" for line in lines)


def answers_document(command: str, answers: Sequence[RankAnswer], ranks: Mapping[str, RankInfo]) -> dict[str, object]:
    """Return what becomes the JSON document with every rank's answer."""
    return {
        "schema": 1,
        "command": command,
        "asked": len(answers),
        "answered": sum(answer.kind in ANSWERED for answer in answers),
        "answers": [
            {
                "address": _known(answer, ranks, "address"),
                "job": _known(answer, ranks, "job"),
                "kind": answer.kind.value,
                "text": answer.text,
            }
            for answer in answers
        ],
    }


def lines_in(answer: RankAnswer) -> tuple[str, ...]:
    """Return the lines of the screen in an answer; of a line debugger, those of its output, which is the text."""
    return tuple(row for row in answer.rows if isinstance(row, str)) or tuple(answer.text.split("\n"))


def show_screen(rows: Sequence[str]) -> str:
    """Return a screen as text: every row on a line of its own, blanks at the right left out."""
    return "".join(f"{printable(row.rstrip(), 10_000)}\n" for row in rows)


def screen_document(rank: RankInfo, rows: Sequence[str]) -> dict[str, object]:
    """Return what becomes the JSON document of a screen."""
    return {"schema": 1, "address": rank.address, "job": rank.job, "screen": list(rows)}


def _said(kind: Kind, text: str) -> str:
    if kind is Kind.VALUE:
        return printable(text)
    explained = {
        Kind.ERROR: "refused",
        Kind.RUNNING: "is running",
        Kind.SILENT: "did not answer",
        Kind.LOST: "is lost",
    }[kind]
    return f"{explained} ({printable(text)})" if text else explained


def _address(answer: RankAnswer, ranks: Mapping[str, RankInfo]) -> str:
    return printable(ranks[answer.key].address if answer.key in ranks else answer.key)


def _known(answer: RankAnswer, ranks: Mapping[str, RankInfo], name: str) -> str | None:
    return getattr(ranks[answer.key], name) if answer.key in ranks else None


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
