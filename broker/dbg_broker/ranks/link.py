"""What the broker keeps of the connection of a rank, or of its guard."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbg_broker.home.bearer import ANY_RANK, Bearer
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.relay.relay import RankPeer
from dbg_broker.timers import TokenBucket
from dbg_wire.messages import Ask, Finding

REPAINT_SECONDS = 0.1
"""Least seconds between two repaints of a rank: ten screens a second are as many as a person can follow."""


@dataclass(slots=True, eq=False)
class RankLink:
    """A rank's connection; ``rank`` is None before it registered, and after a newer connection took over.

    If a guard is at the other end, ``guard_of`` is the key of its rank, ``finding`` is what it has said last, and
    ``asks`` are the questions that it has not answered.
    """

    connection: RankPeer
    bearer: Bearer = ANY_RANK
    rank: RankRecord | None = None
    guard_of: str | None = None
    finding: Finding | None = None
    asks: dict[int, Ask] = field(default_factory=dict)
    repaints: TokenBucket = field(default_factory=lambda: TokenBucket(0.0, 1 / REPAINT_SECONDS, 1))
    repaint_is_due: bool = False
