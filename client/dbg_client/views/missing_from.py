"""The ranks that have not come to a collective in which others wait, as a group that works as a target. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dbg_client.core.collective_matching import Matched, Standing
from dbg_client.views.groups import AnswerGroup, summarize
from dbg_client.views.naming import order
from dbg_client.views.waits import MAX_LABEL
from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankInfo

MISSING = "@missing"
"""The name of the group, also as a target."""

YOUNGEST_SECONDS = 1.0
"""Seconds below which nobody counts as missing: in a job that goes on the slowest rank comes a moment after the others.
"""


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
        id=MISSING, kind="missing", ranks=tuple(sorted(ranks.values(), key=order)), text=summarize(reasons)
    )


def _is_told(standing: Standing) -> bool:
    return not standing.group.is_inferred and (standing.age is None or standing.age >= YOUNGEST_SECONDS)


def _reason(standing: Standing) -> str:
    label = printable(standing.label, MAX_LABEL)
    if standing.has_peer:
        other = ", ".join(str(number) for number in standing.waiting)
        return f"not come to {label} with rank {other}"
    return f"not come to {label}"
