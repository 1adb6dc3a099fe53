"""To which stop of a job the terminal of ``run`` goes next. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbg_client.core.choose import is_ready
from dbg_command.targets import Target, select
from dbg_wire.errors import AmbiguousTarget, NoSuchRank
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, rank_order

PREFERRED_SECONDS = 5.0
"""Seconds to wait for the rank that was followed last time when another rank stops first: imports of one and the same
program differ by that much between ranks on a busy host."""

SAME_RANK_SECONDS = 1.0
"""Seconds that a rank gets to stop again before the terminal goes to another one: a turn of a short loop."""

FOLLOWED_SECONDS = 1.0
"""Seconds at a rank after which it counts as the one that was followed. Where many ranks were told to go on, a terminal
may go for a moment to one that is still listed as stopped."""


@dataclass(frozen=True, slots=True)
class WantedRank:
    """The global number of a rank that goes before all others if it stops within ``seconds``."""

    rank: int
    seconds: float


def is_followed(before: int | None, seconds: float, *, ended_by_user: bool) -> bool:
    """Tell whether a session of so many seconds was at the rank to which the next run of the job goes first.

    ``before`` is the rank that was followed before, None if there is none.
    """
    return before is None or ended_by_user or seconds >= FOLLOWED_SECONDS


def next_stop(
    target: Target,
    ranks: Sequence[RankInfo],
    left: Mapping[str, float],
    wanted: WantedRank | None,
    back_to: str | None = None,
) -> tuple[RankInfo | None, bool]:
    """Return the stop to go to, None if there is none, and whether to go at once or to give the wanted rank time.

    ``ranks`` are those of the job, ``left`` the stops that the user has left: each rank's key and ``occasion``.
    ``back_to`` is the key of a rank that the user comes back to, whether the target means it or not. If it is stopped
    it goes first, then the wanted rank, then the lowest.
    """
    try:
        found = {rank.key for rank in select(target, ranks).ranks}
    except (NoSuchRank, AmbiguousTarget):
        found = set()
    ready = [
        rank
        for rank in ranks
        if (rank.key in found or rank.key == back_to) and is_ready(rank) and left.get(rank.key) != rank.occasion
    ]
    if not ready:
        return None, False
    preferred = wanted.rank if wanted is not None else None
    first = min(ready, key=lambda rank: (rank.key != back_to, rank.rank != preferred, rank_order(rank)))
    return first, wanted is None or first.key == back_to or first.rank == wanted.rank or _is_gone(wanted, ranks)


def _is_gone(wanted: WantedRank, ranks: Sequence[RankInfo]) -> bool:
    """Tell whether the wanted rank is listed and not alive any more."""
    states = [rank.state for rank in ranks if rank.rank == wanted.rank]
    return bool(states) and not any(state in LIVE_STATES for state in states)
