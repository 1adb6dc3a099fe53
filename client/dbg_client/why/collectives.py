"""Pending collectives as notes on the stacks of ``where``, as a table, and as JSON. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.views.ages import show_age
from dbg_client.views.groups import AnswerGroup, paint, summarize
from dbg_client.views.naming import clip
from dbg_client.views.stacks import MISSING, Note
from dbg_client.views.table import table
from dbg_client.why.collective_matching import Matched, PendingCollective, match_collectives, pending_of_each
from dbg_client.why.names import NamedRanks, show_bytes
from dbg_client.why.process_groups import ProcessGroup, Roster, read_evidence, world_size
from dbg_wire.errors import printable
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.evidence import CollectiveSeen, CollectiveState
from dbg_wire.records.ranks import RankInfo, rank_order

MAX_LABEL = 120
"""Maximum characters of the name of a collective, together with its number and group."""

YOUNGEST_SECONDS = 1.0
"""Seconds after which ranks are reported as missing from a collective. Before that, healthy ranks may still arrive."""


MAX_NAMES = 24
"""Maximum columns for the ranks in one cell of the table. The JSON document lists all ranks."""

MAX_ROWS = 200
"""Maximum rows of a table, enough for the hundreds of groups of a large mesh. JSON is easier for more groups."""

MAX_LIMITATIONS, MAX_LACK = 4, 600
"""Maximum number of displayed limitations of libraries, and maximum characters of one."""

NO_LIBRARY = "no library that reports collectives is loaded in these ranks; only their stacks are known"

HEADERS = ("GROUP", "RANKS", "LAST CALLED", "BY", "NOT CALLED BY", "DATA", "AGE")


@dataclass(frozen=True, slots=True)
class CollectiveNotes:
    """Notes on ranks that wait in collectives. ``absent`` is the group of missing ranks; None if no rank is missing."""

    notes: Mapping[str, Note]
    absent: AnswerGroup | None


def annotate(ranks: Sequence[RankInfo], answers: Sequence[RankAnswer]) -> CollectiveNotes:
    """Return notes on the collectives in these answers."""
    matched = match_collectives(read_evidence(ranks, answers))
    return CollectiveNotes(collective_notes(matched), missing_from_collectives(matched))


def collective_notes(matched: Iterable[Matched]) -> dict[str, Note]:
    """Return a note for each rank in a collective that a library has recorded, by the rank's key."""
    notes: dict[int, Note] = {}
    found = {}
    for key, pending in pending_of_each(matched).items():
        if not pending.group.is_inferred:
            if id(pending) not in notes:
                notes[id(pending)] = Note(show_pending(pending), pending_document(pending))
            found[key] = notes[id(pending)]
    return found


def missing_from_collectives(matched: Iterable[Matched]) -> AnswerGroup | None:
    """Return the ranks that are missing from a collective, as recorded by a library; None if no rank is."""
    ranks: dict[str, RankInfo] = {}
    reasons: list[str] = []
    for one in matched:
        for pending in filter(_is_reported, one.all_pending):
            absent = [one.roster[number].rank for number in pending.missing if number in one.roster]
            ranks |= {rank.key: rank for rank in absent}
            reasons += [_reason(pending)] * len(absent)
    if not ranks:
        return None
    return AnswerGroup(
        id=MISSING, kind="missing", ranks=tuple(sorted(ranks.values(), key=rank_order)), text=summarize(reasons)
    )


def _is_reported(pending: PendingCollective) -> bool:
    return not pending.group.is_inferred and (pending.age is None or pending.age >= YOUNGEST_SECONDS)


def _reason(pending: PendingCollective) -> str:
    label = printable(pending.label, MAX_LABEL)
    if pending.has_peer:
        other = ", ".join(str(number) for number in pending.waiting)
        return f"not reached {label} with rank {other}"
    return f"not reached {label}"


def show_pending(pending: PendingCollective) -> str:
    """Return ``waits in all_reduce #3172 of dp_0, 15 of 16 there``, or ``waits in recv #2 of pp from rank 3``.

    The tag of a send or receive, or the root if all ranks have called with the same one, follows the group.
    """
    arguments = tag_and_root(pending)
    label = printable(pending.label, MAX_LABEL) + (f" ({arguments})" if arguments else "")
    if pending.has_peer:
        peer = f"rank {pending.peer}" if pending.peer is not None else "any rank"
        return f"waits in {label} {'from' if pending.is_receive else 'to'} {peer}"
    return f"waits in {label}, {len(pending.came)} of {len(pending.group.numbers)} there"


def tag_and_root(pending: PendingCollective) -> str:
    """Return ``tag 12`` of a send or receive, or ``root 1`` of a collective; empty if there is neither."""
    if pending.tag is not None:
        return f"tag {pending.tag}"
    return f"root {pending.root}" if pending.root is not None else ""


def pending_document(pending: PendingCollective) -> dict[str, object]:
    """Return a collective as JSON fields. For a send or receive, two ranks are expected."""
    came, of = len(pending.came), len(pending.group.numbers)
    if pending.has_peer:
        came, of = (1 if pending.missing or pending.unheard else 2), 2
    return {
        "name": pending.name,
        "sequence": pending.sequence,
        "group": pending.group.label,
        "there": came,
        "of": of,
    }


# ----------------------------------------------------------------------------------------------------------- the table


def group_rows(matched: Matched) -> list[PendingCollective]:
    """Return the latest collective of each group that a library reports, and the pending sends and receives.

    If a group has no call numbers, its latest collective is unknown. For such a group, all pending collectives are
    returned.
    """
    exchanges = [one for one in matched.all_pending if one.has_peer]
    unnumbered = [
        one for one in matched.all_pending if one.sequence is None and not one.has_peer and not one.group.is_inferred
    ]
    known = {id(row.group) for row in unnumbered}
    groups = [group for group in matched.groups if not group.is_inferred and id(group) not in known]
    return [*map(_last, groups), *unnumbered, *exchanges]


def show_collectives(everybody: Sequence[Matched], *, color: bool) -> str:
    """Return a table for each job, followed by the limitations of its libraries. Without a job, return a sentence."""
    several_jobs = len({one.run for one in everybody}) > 1
    blocks = [_block(one, named=several_jobs, color=color) for one in everybody]
    return "\n".join(blocks) if blocks else "no rank has an agent that could answer\n"


def collectives_document(everybody: Sequence[Matched]) -> dict[str, object]:
    """Return the collectives as a JSON document."""
    members = [one for matched in everybody for one in matched.roster.values()]
    return {
        "schema": 1,
        "asked": sum(max(world_size(one.roster) or 0, len(one.roster)) for one in everybody),
        "answered": sum(one.answer.kind is Kind.VALUE for one in members),
        "groups": [_document(matched, row) for matched in everybody for row in group_rows(matched)],
        "notes": [line for matched in everybody for line in _lacks(matched)],
    }


def _last(group: ProcessGroup) -> PendingCollective:
    """Return the latest collective that any rank of a group has called."""
    numbers = {number: member.called for number, member in group.members.items()}
    last = max((called for called in numbers.values() if called is not None and called >= 0), default=None)
    came = tuple(number for number, at in numbers.items() if last is not None and at is not None and at >= last)
    calls = {number: call for number in came if (call := group.members[number].call_of(last)) is not None}
    finished = {number: call for number, call in calls.items() if call.state is CollectiveState.COMPLETED}
    return PendingCollective(
        group=group,
        name=next((call.name for call in calls.values() if call.name), ""),
        sequence=last,
        calls={number: call for number, call in calls.items() if number not in finished},
        came=came,
        missing=tuple(number for number in group.members if number not in came) if last is not None else (),
        unheard=(),
        finished=finished,
    )


def _first_call(row: PendingCollective) -> CollectiveSeen | None:
    return row.all_calls[min(row.all_calls)] if row.all_calls else None


def _block(matched: Matched, *, named: bool, color: bool) -> str:
    rows = group_rows(matched)
    lines = [f"{printable(matched.run[0], 200)}:"] if named else []
    if not rows:
        lines.append("no rank reports a process group" if matched.roster else "no rank has answered")
    if rows:
        header, *shown = table(HEADERS, [_cells(row) for row in rows[:MAX_ROWS]])
        lines.append(header)
        lines += [
            paint(line, "1;33") if row.missing and color else line for row, line in zip(rows, shown, strict=False)
        ]
    if len(rows) > MAX_ROWS:
        lines.append(f"and {len(rows) - MAX_ROWS} more; --json lists them all")
    silent = [one for one in matched.roster.values() if not one.reports_collectives]
    if rows and silent:
        lines.append(f"{len(silent)} of {len(matched.roster)} ranks reported no group")
    lines += _lacks(matched)
    return "".join(f"{line}\n" for line in lines)


def limitations(roster: Roster, names: NamedRanks) -> list[str]:
    """Return a line for each limitation in what libraries report on collectives, with the ranks concerned."""
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    bare = 0
    for number, one in roster.items():
        if one.evidence is not None:
            bare += not one.evidence.sources and not one.evidence.groups
            for source in one.evidence.sources:
                if source.limitation:
                    version = f" {printable(source.version, 40)}" if source.version else ""
                    ranks[f"{source.library}{version}: {printable(source.limitation, MAX_LACK)}"].append(number)
    lines = [
        limitation if len(numbers) == len(roster) else f"{names.ranks(numbers)}: {limitation}"
        for limitation, numbers in sorted(ranks.items())[:MAX_LIMITATIONS]
    ]
    return [*lines, NO_LIBRARY] if bare and bare == len(roster) else lines


def _lacks(matched: Matched) -> list[str]:
    return limitations(matched.roster, NamedRanks(matched.run, matched.roster, several_jobs=False))


def _cells(row: PendingCollective) -> tuple[str, ...]:
    call = row.call if row.name or row.sequence is not None else ""
    if row.peer is not None:
        call = f"{call} {'from' if row.is_receive else 'to'} {row.peer}"
    return (
        printable(row.group.label, 100),
        clip(format_ranks(row.group.numbers), MAX_NAMES),
        printable(call, 80) or "none yet",
        f"{len(row.came)} of {len(row.group.numbers)}" if row.peer is None else format_ranks(row.came),
        clip(format_ranks(row.missing), MAX_NAMES),
        _data(_first_call(row)),
        show_age(row.age) if row.age is not None else "",
    )


def _data(call: CollectiveSeen | None) -> str:
    if call is None:
        return ""
    size = show_bytes(call.size) if call.size is not None else printable(call.shapes, 40)
    return " ".join(piece for piece in (printable(call.types, 40), size) if piece)


def _document(matched: Matched, row: PendingCollective) -> dict[str, object]:
    member = next(iter(row.group.members.values()))
    call = _first_call(row)
    return {
        "job": matched.run[0],
        "group": row.group.label,
        "library": row.group.library,
        "backend": member.seen.backend or None,
        "ranks": format_ranks(row.group.numbers),
        "collective": row.name or None,
        "sequence": row.sequence,
        "peer": row.peer,
        "called": format_ranks(row.came),
        "missing": format_ranks(row.missing),
        "types": (call.types or None) if call is not None else None,
        "shapes": (call.shapes or None) if call is not None else None,
        "bytes": call.size if call is not None else None,
        "age": None if row.age is None else round(row.age, 3),
    }
