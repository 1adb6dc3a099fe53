"""Output of `list`: a table for people, JSON for programs. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from dbg_client.views.ages import StandingCounts, show_duration
from dbg_client.views.naming import Naming, clip
from dbg_client.views.table import table
from dbg_wire.errors import printable
from dbg_wire.records.ranks import Place, RankInfo, RankState

MAX_NAME = 32
"""Maximum characters of a child's name."""

MAX_NUMBERS = 40
"""Maximum columns for the numbers of one row. JSON lists them all."""

_COLORS = {
    RankState.RUNNING: "32",
    RankState.STOPPED: "1;33",
    RankState.HELD: "36",
    RankState.UNRESPONSIVE: "31",
    RankState.LOST: "31",
    RankState.EXITED: "2",
}

_HEADERS = ("JOB", "RANK", "STATE", "PLACE", "SINCE", "WHO", "", "")

STATE = 2

LIST_FIELDS = (
    *("address", "job", "run", "host", "rank", "local_rank", "world_size", "child", "pid", "state", "reason"),
    *("where", "engine", "queued", "since", "driver", "watchers", "exit", "detail", "driver_silent", "passed"),
    *("name", "will_stop"),
)

MAX_ROWS = 40
"""Maximum rows of a table with one rank each. With more ranks, similar ranks share a row."""


def nobody_yet(url: str) -> str:
    """Return the sentence that replaces an empty list."""
    how = "Start a job with `dbg-attach run -- COMMAND`; for a running job, use `dbg-attach adopt --mine`."
    return f"No rank is connected to {printable(url)} yet. {how}"


def first_limits(ranks: Sequence[RankInfo]) -> list[str]:
    """Return a line for each job with time limits: the limit that ends first, and its rank."""
    limited: defaultdict[str, list[RankInfo]] = defaultdict(list)
    for rank in ranks:
        if rank.limit:
            limited[rank.job].append(rank)
    jobs = {rank.job for rank in ranks}
    return [_line(limited[job], with_job=len(jobs) > 1) for job in sorted(limited)]


def _line(ranks: Sequence[RankInfo], *, with_job: bool) -> str:
    first = min(ranks, key=lambda rank: math.inf if rank.limit_seconds is None else rank.limit_seconds)
    name = printable(first.full_address if with_job else first.address)
    whose = f"{name} has the first of {len(ranks)} time limits" if len(ranks) > 1 else name
    return f"{whose}: {printable(first.limit)}"


def show_table(
    ranks: Sequence[RankInfo],
    now: float,
    *,
    color: bool,
    fold: bool = False,
    known: Sequence[RankInfo] | None = None,
) -> str:
    """Return an aligned table with a header, and below it each job's first time limit; empty without ranks.

    ``now`` is wall-clock seconds. ``known`` are all ranks, by default the ranks of the table. With ``fold``, similar
    ranks of a long table share a row, at the position of the first one.
    """
    if not ranks:
        return ""
    counts = StandingCounts(ranks if known is None else known)
    groups = _alike(ranks, now, counts) if fold and len(ranks) > MAX_ROWS else [[rank] for rank in ranks]
    header, lines = _align(groups, ranks, now, counts, color=color)
    return "".join(f"{line}\n" for line in (header, *lines, *first_limits(ranks)))


def align(
    ranks: Sequence[RankInfo], now: float, *, color: bool = False, known: Sequence[RankInfo] | None = None
) -> tuple[str, list[str]]:
    """Return the table's header and a line for each rank, without empty columns."""
    counts = StandingCounts(ranks if known is None else known)
    return _align([[rank] for rank in ranks], ranks, now, counts, color=color)


def _align(
    groups: Sequence[Sequence[RankInfo]],
    ranks: Sequence[RankInfo],
    now: float,
    counts: StandingCounts,
    *,
    color: bool,
) -> tuple[str, list[str]]:
    naming = Naming(ranks)
    rows = [_row_of(group, naming, now, counts) for group in groups]
    if len({rank.job for rank in ranks}) == 1:
        rows = [("", *row[1:]) for row in rows]

    def paint(row: int, column: int, text: str) -> str:
        return f"\x1b[{_COLORS[groups[row][0].state]}m{text}\x1b[0m" if column == STATE else text

    header, *lines = table(_HEADERS, rows, paint if color else None)
    return header, lines


def list_document(ranks: Sequence[RankInfo], missing: Sequence[Mapping[str, object]] = ()) -> dict[str, object]:
    """Return a list as a JSON document: the ranks with all their fields, and the missing ranks."""
    return {
        "schema": 1,
        "ranks": [msgspec.to_builtins({name: getattr(rank, name) for name in LIST_FIELDS}) for rank in ranks],
        "missing": [dict(one) for one in missing],
    }


def show_state(rank: RankInfo) -> str:
    """Return a rank's state, with the reason of its stop or the way it ended."""
    if rank.state is RankState.EXITED:
        return rank.end.state
    if rank.state is RankState.STOPPED and rank.reason not in (None, "breakpoint"):
        return f"{rank.state.value} ({printable(rank.reason or '')})"
    return f"{rank.state.value}, will stop" if rank.will_stop else str(rank.state.value)


def child_name(rank: RankInfo) -> str:
    """Return the name of a child process, or of its program; empty for a rank."""
    return (rank.name or rank.script.rpartition("/")[2]) if rank.child is not None else ""


def show_people(rank: RankInfo) -> str:
    """Return the driver and the number of watchers."""
    watching = f"{rank.watchers} watching" if rank.watchers else ""
    driver = printable(rank.driver or "") + (" (silent)" if rank.driver_silent else "")
    return ", ".join(part for part in (driver, watching) if part)


def _alike(ranks: Sequence[RankInfo], now: float, counts: StandingCounts) -> list[list[RankInfo]]:
    """Group the ranks whose rows differ only in rank, host, process and duration."""
    groups: defaultdict[tuple[str, ...], list[RankInfo]] = defaultdict(list)
    for rank in ranks:
        job, _, state, place, _, *others = _row(rank, now, counts)
        kind = "child" if rank.child is not None else "stock" if rank.is_classic else ""
        same = (job, kind, state, place, *others)
        groups[same].append(rank)
    return list(groups.values())


def _row_of(group: Sequence[RankInfo], naming: Naming, now: float, counts: StandingCounts) -> tuple[str, ...]:
    row = _row(group[0], now, counts)
    if len(group) == 1:
        return row
    job, _, state, place, _, *others = row
    ages = sorted(now - rank.since for rank in group if rank.since)
    shortest, longest = (show_duration(ages[0]), show_duration(ages[-1])) if ages else ("", "")
    since = shortest if shortest == longest else f"{shortest} to {longest}"
    names = printable(clip(naming.names(group), MAX_NUMBERS))
    return job, names, f"{len(group)} {state}", place, since, *others


def _row(rank: RankInfo, now: float, counts: StandingCounts) -> tuple[str, ...]:
    queued = f"{rank.queued} queued" if rank.queued else ""
    since = show_duration(now - rank.since) if rank.since else ""
    place = show_place(rank.where) or ""
    who = (printable(rank.job), printable(rank.address))
    state = counts.show_wait(rank.waits_in, rank.job) or show_state(rank)
    passed = printable(f"passed {rank.passed}") if rank.passed else ""
    name = printable(child_name(rank), MAX_NAME)
    notes = "; ".join(filter(None, (name, printable(rank.about), passed)))
    return *who, state, place, since, show_people(rank), queued, notes


def show_place(place: Place | None) -> str | None:
    """Return a place as ``train.py:41 in step``; None if it is unknown."""
    if place is None or not place.file:
        return None
    return printable(f"{PurePosixPath(place.file).name}:{place.line} in {place.function}")
