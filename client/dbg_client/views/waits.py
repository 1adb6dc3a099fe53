"""What a rank in a collective waits for: the ranks of its job that are stopped or held. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dbg_wire.errors import printable
from dbg_wire.ranks import RankInfo, RankState


class Standing:
    """How many ranks of each job stand still, by state; the caller's list may be longer than what it shows."""

    def __init__(self, ranks: Iterable[RankInfo]) -> None:
        self._counts = Counter((rank.job, rank.state) for rank in ranks)

    def show_wait(self, collective: str, job: str) -> str:
        """Return what a running rank of a job waits for, as :func:`show_wait`."""
        return show_wait(collective, self._counts[job, RankState.STOPPED], self._counts[job, RankState.HELD])


def show_wait(collective: str, stopped: int, held: int) -> str:
    """Return ``waits in all_reduce for 3 stopped ranks``; empty without a collective or a rank to wait for."""
    counts = [f"{count} {state}" for count, state in ((stopped, "stopped"), (held, "held")) if count]
    if not collective or not counts:
        return ""
    ranks = "rank" if stopped + held == 1 else "ranks"
    return f"waits in {printable(collective, 80)} for {' and '.join(counts)} {ranks}"
