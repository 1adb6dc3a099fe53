"""The groups of jobs, and how far their ranks are in the collectives of each, as a table and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dbg_client.views.ages import show_age
from dbg_client.views.groups import paint
from dbg_client.views.naming import clip
from dbg_client.views.table import table
from dbg_client.why.collective_matching import Matched, PendingCollective
from dbg_client.why.lines import lacks
from dbg_client.why.process_groups import Member, ProcessGroup, world_size
from dbg_client.why.verdict import NamedRanks, show_bytes
from dbg_wire.errors import printable
from dbg_wire.messages import Kind
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState

MAX_NAMES = 24
"""Columns for the ranks of one cell; JSON has them all."""

MAX_ROWS = 200
"""Rows of a table: a large mesh has some hundred groups, and more are better read as JSON."""

HEADERS = ("GROUP", "RANKS", "LAST CALLED", "BY", "STARTED", "FINISHED", "NOT CALLED BY", "DATA", "AGE")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """The last collective of a group that a rank has called, or a send or receive that waits.

    ``called``, ``started`` and ``finished`` are the ranks that have got so far, None if the library does not tell;
    ``missing`` have told that they have not called it. ``call`` is one rank's call, None if no rank lists it.
    """

    group: ProcessGroup
    name: str
    sequence: int | None
    called: tuple[int, ...]
    started: tuple[int, ...] | None
    finished: tuple[int, ...] | None
    missing: tuple[int, ...]
    call: CollectiveSeen | None
    age: float | None
    peer: int | None = None
    is_receive: bool = False


def group_rows(matched: Matched) -> list[GroupRow]:
    """Return a row for each group that libraries tell of, and one for each send or receive that waits."""
    groups = [group for group in matched.groups if not group.is_inferred]
    exchanges = [_pending(standing) for standing in matched.standings if standing.has_peer]
    unnumbered = [
        _pending(standing)
        for standing in matched.standings
        if standing.sequence is None and not standing.has_peer and not standing.group.is_inferred
    ]
    known = {id(row.group) for row in unnumbered}
    return [*(_last(group) for group in groups if id(group) not in known), *unnumbered, *exchanges]


def show_collectives(everybody: Sequence[Matched], *, color: bool) -> str:
    """Return a table for each job, and below it what libraries can't tell; a sentence for a job without groups."""
    several_jobs = len({one.run for one in everybody}) > 1
    blocks = [_block(one, named=several_jobs, color=color) for one in everybody]
    return "\n".join(blocks) if blocks else "there is no rank with an agent that could tell\n"


def collectives_document(everybody: Sequence[Matched]) -> dict[str, object]:
    """Return what becomes the JSON document."""
    told = [one for matched in everybody for one in matched.roster.values()]
    return {
        "schema": 1,
        "asked": sum(max(world_size(one.roster) or 0, len(one.roster)) for one in everybody),
        "answered": sum(one.answer.kind is Kind.VALUE for one in told),
        "groups": [_document(matched, row) for matched in everybody for row in group_rows(matched)],
        "notes": [line for matched in everybody for line in _lacks(matched)],
    }


def _last(group: ProcessGroup) -> GroupRow:
    numbers = {number: member.called for number, member in group.members.items()}
    last = max((called for called in numbers.values() if called is not None and called >= 0), default=None)
    called = tuple(number for number, at in numbers.items() if last is not None and at is not None and at >= last)
    calls = [call for number in called if (call := group.members[number].call_of(last)) is not None]
    open_calls = [call for call in calls if call.state is not CollectiveState.COMPLETED]
    return GroupRow(
        group=group,
        name=next((call.name for call in calls if call.name), ""),
        sequence=last,
        called=called,
        started=_reached(group, called, last, _has_started),
        finished=_reached(group, called, last, _has_finished),
        missing=tuple(number for number in group.members if number not in called) if last is not None else (),
        call=calls[0] if calls else None,
        age=max((call.age for call in open_calls if call.age is not None), default=None),
    )


def _pending(standing: PendingCollective) -> GroupRow:
    return GroupRow(
        group=standing.group,
        name=standing.name,
        sequence=standing.sequence,
        called=standing.waiting if standing.has_peer else standing.came,
        started=None,
        finished=None,
        missing=standing.missing,
        call=standing.calls[min(standing.calls)],
        age=standing.age,
        peer=standing.peer,
        is_receive=standing.is_receive,
    )


def _reached(
    group: ProcessGroup, called: Sequence[int], last: int | None, has: Callable[[Member, int], bool | None]
) -> tuple[int, ...] | None:
    told = {number: has(group.members[number], last) for number in called} if last is not None else {}
    if not told or all(reached is None for reached in told.values()):
        return None
    return tuple(number for number, reached in told.items() if reached)


def _has_started(member: Member, last: int) -> bool | None:
    call = member.call_of(last)
    if call is not None and call.state is not CollectiveState.ENQUEUED:
        return True
    return member.seen.started >= last if member.seen.started is not None else None


def _has_finished(member: Member, last: int) -> bool | None:
    call = member.call_of(last)
    if call is not None:
        return call.state is CollectiveState.COMPLETED
    return member.seen.completed >= last if member.seen.completed is not None else None


def _block(matched: Matched, *, named: bool, color: bool) -> str:
    rows = group_rows(matched)
    lines = [f"{printable(matched.run[0], 200)}:"] if named else []
    if not rows:
        lines.append("no rank tells of a process group" if matched.roster else "no rank has answered")
    if rows:
        header, *shown = table(HEADERS, [_cells(row) for row in rows[:MAX_ROWS]])
        lines.append(header)
        lines += [
            paint(line, "1;33") if row.missing and color else line for row, line in zip(rows, shown, strict=False)
        ]
    if len(rows) > MAX_ROWS:
        lines.append(f"and {len(rows) - MAX_ROWS} more; --json has them all")
    silent = [one for one in matched.roster.values() if not one.tells_collectives]
    if rows and silent:
        lines.append(f"{len(silent)} of {len(matched.roster)} ranks told of no group")
    lines += _lacks(matched)
    return "".join(f"{line}\n" for line in lines)


def _lacks(matched: Matched) -> list[str]:
    return lacks(matched.roster, NamedRanks(matched.run, matched.roster, several_jobs=False))


def _cells(row: GroupRow) -> tuple[str, ...]:
    name = row.name or ("" if row.sequence is None else "a collective")
    call = f"{name} #{row.sequence}" if row.sequence is not None else name
    if row.peer is not None:
        call = f"{call} {'from' if row.is_receive else 'to'} {row.peer}"
    return (
        printable(row.group.label, 100),
        clip(format_ranks(row.group.numbers), MAX_NAMES),
        printable(call, 80) or "none yet",
        _share(row.called, row) if row.peer is None else format_ranks(row.called),
        _share(row.started, row),
        _share(row.finished, row),
        clip(format_ranks(row.missing), MAX_NAMES),
        _data(row.call),
        show_age(row.age) if row.age is not None else "",
    )


def _share(numbers: tuple[int, ...] | None, row: GroupRow) -> str:
    if numbers is None:
        return ""
    return f"{len(numbers)} of {len(row.group.numbers)}"


def _data(call: CollectiveSeen | None) -> str:
    if call is None:
        return ""
    size = show_bytes(call.size) if call.size is not None else printable(call.shapes, 40)
    return " ".join(piece for piece in (printable(call.types, 40), size) if piece)


def _document(matched: Matched, row: GroupRow) -> dict[str, object]:
    member = next(iter(row.group.members.values()))
    call = row.call
    return {
        "job": matched.run[0],
        "group": row.group.label,
        "library": row.group.library,
        "backend": member.seen.backend or None,
        "ranks": format_ranks(row.group.numbers),
        "collective": row.name or None,
        "sequence": row.sequence,
        "peer": row.peer,
        "called": format_ranks(row.called),
        "started": None if row.started is None else format_ranks(row.started),
        "finished": None if row.finished is None else format_ranks(row.finished),
        "missing": format_ranks(row.missing),
        "types": (call.types or None) if call is not None else None,
        "shapes": (call.shapes or None) if call is not None else None,
        "bytes": call.size if call is not None else None,
        "age": None if row.age is None else round(row.age, 3),
    }
