"""Say of stacks in which collectives their ranks wait, for ``where``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_client.core.collective_matching import PendingCollective, match_collectives
from dbg_client.core.process_groups import read_evidence
from dbg_client.views.groups import AnswerGroup
from dbg_client.views.stacks import missing_from_collectives
from dbg_client.views.waits import recorded_collectives
from dbg_wire.messages import RankAnswer
from dbg_wire.records.ranks import RankInfo


@dataclass(frozen=True, slots=True)
class CollectiveNotes:
    """The collectives of ranks: ``standings`` by rank, and the ranks that are ``absent`` from one, None for none."""

    standings: Mapping[str, PendingCollective]
    absent: AnswerGroup | None


def annotate(ranks: Sequence[RankInfo], answers: Sequence[RankAnswer]) -> CollectiveNotes:
    """Return the collectives that the answers of ranks tell of."""
    matched = match_collectives(read_evidence(ranks, answers))
    return CollectiveNotes(recorded_collectives(matched), missing_from_collectives(matched))
