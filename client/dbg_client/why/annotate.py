"""The collectives in which ranks wait, as notes on their stacks for ``where``, and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.views.groups import AnswerGroup, summarize
from dbg_client.views.stacks import MISSING, Note
from dbg_client.why.collective_matching import Matched, PendingCollective, match_collectives, pending_of_each
from dbg_client.why.process_groups import read_evidence
from dbg_wire.errors import printable
from dbg_wire.messages import RankAnswer
from dbg_wire.records.ranks import RankInfo, rank_order

MAX_LABEL = 120
"""Characters of a collective and its group."""

YOUNGEST_SECONDS = 1.0
"""Seconds below which nobody counts as missing: in a job that goes on the slowest rank comes a moment after the others.
"""


@dataclass(frozen=True, slots=True)
class CollectiveNotes:
    """A note for each rank in a collective, and the ranks that are ``absent`` from one, None for none."""

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
    for key, standing in pending_of_each(matched).items():
        if not standing.group.is_inferred:
            if id(standing) not in notes:
                notes[id(standing)] = Note(show_pending(standing), pending_document(standing))
            found[key] = notes[id(standing)]
    return found


def missing_from_collectives(matched: Iterable[Matched]) -> AnswerGroup | None:
    """Return who is missing from a collective, as recorded by a library; None if nobody is."""
    ranks: dict[str, RankInfo] = {}
    reasons: list[str] = []
    for one in matched:
        for standing in filter(_is_told, one.standings):
            absent = [one.roster[number].rank for number in standing.missing if number in one.roster]
            ranks |= {rank.key: rank for rank in absent}
            reasons += [_reason(standing)] * len(absent)
    if not ranks:
        return None
    return AnswerGroup(
        id=MISSING, kind="missing", ranks=tuple(sorted(ranks.values(), key=rank_order)), text=summarize(reasons)
    )


def _is_told(standing: PendingCollective) -> bool:
    return not standing.group.is_inferred and (standing.age is None or standing.age >= YOUNGEST_SECONDS)


def _reason(standing: PendingCollective) -> str:
    label = printable(standing.label, MAX_LABEL)
    if standing.has_peer:
        other = ", ".join(str(number) for number in standing.waiting)
        return f"not come to {label} with rank {other}"
    return f"not come to {label}"


def show_pending(standing: PendingCollective) -> str:
    """Return ``waits in all_reduce #3172 of dp_0, 15 of 16 there``, or ``waits in recv #2 of pp from rank 3``.

    The tag of a send or receive, and the root that all ranks have passed, stand behind the group.
    """
    arguments = tag_of(standing) or root_of(standing)
    label = printable(standing.label, MAX_LABEL) + (f" ({arguments})" if arguments else "")
    if standing.has_peer:
        peer = f"rank {standing.peer}" if standing.peer is not None else "any rank"
        return f"waits in {label} {'from' if standing.is_receive else 'to'} {peer}"
    return f"waits in {label}, {len(standing.came)} of {len(standing.group.numbers)} there"


def tag_of(standing: PendingCollective) -> str:
    """Return ``tag 12`` of a send or receive; empty for any tag, for 0, which calls without one have, or an unknown."""
    tag = next((call.tag for call in standing.calls.values()), None) if standing.has_peer else None
    return f"tag {tag}" if tag is not None and tag > 0 else ""


def root_of(standing: PendingCollective) -> str:
    """Return ``root 1`` of a collective if its ranks have passed one root as far as they tell; empty otherwise."""
    roots = list(standing.roots)
    return f"root {roots[0]}" if len(roots) == 1 else ""


def pending_document(standing: PendingCollective) -> dict[str, object]:
    """Return what becomes the JSON of a collective; of a send or receive two ranks are expected."""
    came, of = len(standing.came), len(standing.group.numbers)
    if standing.has_peer:
        came, of = (1 if standing.missing or standing.unheard else 2), 2
    return {
        "name": standing.name,
        "sequence": standing.sequence,
        "group": standing.group.label,
        "there": came,
        "of": of,
    }
