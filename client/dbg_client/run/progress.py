"""What a run waits for, in a sentence: ranks that have not connected, or a stop that none has stopped at. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dbg_client.views.ages import show_duration
from dbg_wire.errors import printable
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState

COMES_BACK = "Enter comes back"
"""What the key does after a stop was left."""


def progress(ranks: Sequence[RankInfo], stops: Sequence[str], target: str, seconds: float, *, had_stop: bool) -> str:
    """Return what the ranks of a job have come to after ``seconds`` of waiting for a stop.

    ``stops`` are those that were asked for, ``target`` the ranks whose stops are followed; ``had_stop`` says that a
    rank has stopped before.
    """
    after = f" ({show_duration(seconds)})"
    own = [rank for rank in ranks if rank.child is None]
    if not own:
        return f"no rank has connected yet{after}"
    there = {rank.rank for rank in own if rank.state in LIVE_STATES}
    ended = {rank.rank for rank in own if rank.state is RankState.EXITED} - there
    size = max([rank.world_size or 0 for rank in own] + [len(there | ended)])
    sentence = f"{len(there)} of {size} rank{'s' if size > 1 else ''} connected"
    if ended:
        sentence += f", {len(ended)} ha{'s' if len(ended) == 1 else 've'} ended"
    stopped = [rank for rank in own if rank.state is RankState.STOPPED]
    if stopped and target != "all":
        sentence += f", {len(stopped)} stopped, waiting for {printable(target)}"
    elif passed := [rank for rank in own if rank.passed]:
        return _passed(passed, size) + after
    elif len(there) == size:
        sentence += _not_there(stops, had_stop=had_stop)
    return sentence + after


def _passed(passed: Sequence[RankInfo], size: int) -> str:
    """Return which stop ranks have passed without stopping, and why."""
    how_many = f"all {size} ranks" if len(passed) == size > 1 else f"{len(passed)} of {size} rank{'s' * (size > 1)}"
    return f"{how_many} passed {printable(passed[0].passed)}"


def _not_there(stops: Sequence[str], *, had_stop: bool) -> str:
    if had_stop:
        return ", none is stopped"
    if not stops:
        return ", none has stopped"
    return f", none has stopped at {printable(stops[0]) if len(stops) == 1 else f'any of the {len(stops)} stops'}"


def way_back(left: Sequence[RankInfo]) -> str:
    """Return how to come back to ranks that were left at their stops, the one that was left last before the others."""
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    verb = "are" if more else "is"
    return f"{printable(left[0].address)}{more} {verb} still stopped; {COMES_BACK}"
