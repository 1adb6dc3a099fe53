"""The ranks as ``--list`` prints them: a table for people, tab-separated lines for scripts, JSON for programs. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from dbg_client.views.folding import fold_address
from dbg_client.views.session_status import show_place
from dbg_client.views.time_limits import first_limits, without_limit
from dbg_client.views.waits import StillRanks
from dbg_client.views.width import text_width
from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankInfo, RankState, exit_state
from dbg_wire.targets.selection import unique_targets

_COLORS = {
    RankState.RUNNING: "32",
    RankState.STOPPED: "1;33",
    RankState.HELD: "36",
    RankState.UNRESPONSIVE: "31",
    RankState.LOST: "31",
    RankState.EXITED: "2",
}

_HEADERS = ("JOB", "RANK", "STATE", "PLACE", "SINCE", "WHO", "", "")
_JSON_FIELDS = (
    *("address", "job", "run", "host", "rank", "local_rank", "world_size", "child", "pid", "state", "reason"),
    *("where", "engine", "queued", "since", "driver", "watchers", "exit", "detail", "driver_silent", "passed"),
)


MAX_ROWS = 40
"""Rows of a table that are shown one by one; of more ranks those that are alike share a row."""


def show_table(
    ranks: Sequence[RankInfo],
    now: float,
    *,
    color: bool,
    fold: bool = False,
    known: Sequence[RankInfo] | None = None,
) -> str:
    """Return an aligned table with a header, and below it each job's first time limit; empty for no ranks.

    ``now`` is wall-clock seconds, ``known`` are all ranks there are, by default those of the table. With ``fold`` the
    ranks of a long table that are alike are one row, where the first of them would stand.
    """
    if not ranks:
        return ""
    standing = StillRanks(ranks if known is None else known)
    groups = _alike(ranks, now, standing) if fold and len(ranks) > MAX_ROWS else [[rank] for rank in ranks]
    header, lines = _align(groups, ranks, now, standing, color=color)
    return "".join(f"{line}\n" for line in (header, *lines, *first_limits(ranks)))


def align(
    ranks: Sequence[RankInfo], now: float, *, color: bool = False, known: Sequence[RankInfo] | None = None
) -> tuple[str, list[str]]:
    """Return the table's header and a line for each rank; columns that hold nothing are left out."""
    standing = StillRanks(ranks if known is None else known)
    return _align([[rank] for rank in ranks], ranks, now, standing, color=color)


def _align(
    groups: Sequence[Sequence[RankInfo]],
    ranks: Sequence[RankInfo],
    now: float,
    standing: StillRanks,
    *,
    color: bool,
) -> tuple[str, list[str]]:
    hosts: defaultdict[tuple[str, str], list[RankInfo]] = defaultdict(list)
    for rank in ranks:
        hosts[rank.job, rank.host].append(rank)
    rows = [
        _row(group[0], now, standing) if len(group) == 1 else _folded_row(group, hosts, now, standing)
        for group in groups
    ]
    if len({rank.job for rank in ranks}) == 1:
        rows = [("", *row[1:]) for row in rows]
    empty = [not any(row[column] for row in rows) for column in range(len(_HEADERS))]
    header = tuple("" if is_empty else name for name, is_empty in zip(_HEADERS, empty, strict=True))
    widths = [max(text_width(row[column]) for row in (header, *rows)) for column in range(len(_HEADERS))]
    lines = [
        _aligned(row, widths, _COLORS[group[0].state] if color else None)
        for row, group in zip(rows, groups, strict=True)
    ]
    return _aligned(header, widths, None), lines


def show_plain(ranks: Sequence[RankInfo], known: Sequence[RankInfo]) -> str:
    """Return a tab-separated line for each rank, column 1 a target that names it alone among all ``known``.

    Columns: target, state, reason, file:line, function, since (epoch), driver, watchers, queued, exit status.
    """
    targets = unique_targets(known)
    return "".join(f"{_plain_line(rank, targets[rank.key])}\n" for rank in ranks)


def show_json(ranks: Sequence[RankInfo], missing: Sequence[Mapping[str, object]] = ()) -> str:
    """Return one JSON document with all that is known of the ranks, and with those that are missing."""
    document = {"schema": 1, "ranks": [_document(rank) for rank in ranks], "missing": [dict(one) for one in missing]}
    return json.dumps(document) + "\n"


def show_state(rank: RankInfo) -> str:
    """Return a rank's state with what people ask next: why it stopped, how it ended."""
    if rank.state is RankState.EXITED:
        return exit_state(rank)
    if rank.state is RankState.STOPPED and rank.reason not in (None, "breakpoint"):
        return f"{rank.state.value} ({printable(rank.reason or '')})"
    return str(rank.state.value)


def show_duration(seconds: float) -> str:
    """Return seconds as people say them; clocks of two hosts differ, so never a negative number."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole < 48 * 3600 else f"{whole // 86400} d"


def show_people(rank: RankInfo) -> str:
    """Return who types there and how many look on."""
    watching = f"{rank.watchers} watching" if rank.watchers else ""
    driver = printable(rank.driver or "") + (" (silent)" if rank.driver_silent else "")
    return ", ".join(part for part in (driver, watching) if part)


def _alike(ranks: Sequence[RankInfo], now: float, standing: StillRanks) -> list[list[RankInfo]]:
    """Return the ranks whose rows differ in rank, host, process and duration alone, together."""
    groups: defaultdict[tuple[str, ...], list[RankInfo]] = defaultdict(list)
    for rank in ranks:
        job, _, state, place, _, *others = _row(rank, now, standing)
        kind = "child" if rank.child is not None else "stock" if rank.is_classic else ""
        same = (job, kind, state, place, *others)
        groups[same].append(rank)
    return list(groups.values())


def _folded_row(
    group: Sequence[RankInfo],
    hosts: Mapping[tuple[str, str], Sequence[RankInfo]],
    now: float,
    standing: StillRanks,
) -> tuple[str, ...]:
    job, _, state, place, _, *others = _row(group[0], now, standing)
    listed_there = [rank for name in {(rank.job, rank.host) for rank in group} for rank in hosts[name]]
    ages = sorted(now - rank.since for rank in group if rank.since)
    shortest, longest = (show_duration(ages[0]), show_duration(ages[-1])) if ages else ("", "")
    since = shortest if shortest == longest else f"{shortest} to {longest}"
    return job, fold_address(group, listed_there), f"{len(group)} {state}", place, since, *others


def _row(rank: RankInfo, now: float, standing: StillRanks) -> tuple[str, ...]:
    queued = f"{rank.queued} queued" if rank.queued else ""
    since = show_duration(now - rank.since) if rank.since else ""
    place = show_place(rank.where) or ""
    who = (printable(rank.job), printable(rank.address))
    state = standing.show_wait(rank.waits_in, rank.job) or show_state(rank)
    # The state already names the signal that killed a rank, but not its core file.
    detail = printable(without_limit(rank))
    passed = printable(f"passed {rank.passed}") if rank.passed else ""
    told = "; ".join(filter(None, ("" if detail in state else detail, passed)))
    return *who, state, place, since, show_people(rank), queued, told


def _aligned(row: Sequence[str], widths: Sequence[int], state_color: str | None) -> str:
    cells = []
    for column, (text, width) in enumerate(zip(row, widths, strict=True)):
        if not width:
            continue
        painted = f"\x1b[{state_color}m{text}\x1b[0m" if state_color and column == 2 else text
        cells.append(painted + " " * (width - text_width(text)))
    return "  ".join(cells).rstrip()


def _plain_line(rank: RankInfo, target: str) -> str:
    where = rank.where
    cells = (
        target,
        rank.state.value,
        rank.reason or "",
        f"{where.file}:{where.line}" if where else "",
        where.function if where else "",
        f"{rank.since:.3f}",
        rank.driver or "",
        str(rank.watchers),
        str(rank.queued),
        "" if rank.exit is None else str(rank.exit),
    )
    return "\t".join(printable(cell, 4096) for cell in cells)


def _document(rank: RankInfo) -> dict[str, object]:
    document: dict[str, object] = {name: getattr(rank, name) for name in _JSON_FIELDS}
    where = rank.where
    document["state"] = rank.state.value
    document["where"] = {"file": where.file, "line": where.line, "function": where.function} if where else None
    return document
