"""The counts by which held ranks wait for chosen ranks. The ranks keep this state, so it survives the broker.

A chosen rank counts how often it has arrived at a site and how often its stop there is over. A held rank waits, on its
n-th visit, until every chosen rank has completed n stops, or is gone. No collective is used, so no rank can hang in
one. Pure except for the clock that is passed in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from dbg_wire.messages import Arrival, ChosenRank, Waiting
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import fitted
from dbg_wire.targets.rank_set import format_ranks

MAX_SITES = 256
"""Sites whose counts are restated. Only a generated program has more of them; the oldest are then forgotten."""

HOLD_GRACE_SECONDS = 60.0
"""Seconds that a held rank waits for a chosen rank to arrive: a slow rank after an evaluation comes within a minute."""

HOLD_LOST_SECONDS = 600.0
"""Seconds that a held rank waits for a chosen rank that is stopped and lost: a broken network is repaired by then."""


@dataclass(frozen=True, slots=True)
class HoldVerdict:
    """Whether a held rank goes on, why in a sentence or "", and when to judge again at the latest.

    ``lost`` are the chosen ranks that it still waits for although they are lost.
    """

    goes_on: bool
    why: str = ""
    again: float | None = None
    lost: tuple[int, ...] = ()


class HoldCounts:
    """This rank's counts of arrivals and visits, and the judgement on the ranks that it waits for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._arrived: Counter[str] = Counter()
        self._completed: Counter[str] = Counter()
        self._visits: Counter[str] = Counter()
        self._grace = HOLD_GRACE_SECONDS
        self._lost = HOLD_LOST_SECONDS
        self._missing_since: dict[int, float] = {}
        self._heard: dict[int, ChosenRank] = {}
        self.waiting: Waiting | None = None

    # ------------------------------------------------------------------------------------------------- a chosen rank

    def arrive(self, site: str) -> None:
        """Count that this rank stops at a site where other ranks are held."""
        if site not in self._arrived and len(self._arrived) >= MAX_SITES:
            oldest = next(iter(self._arrived))
            del self._arrived[oldest], self._completed[oldest]
        self._arrived[site] += 1

    def complete(self, site: str) -> None:
        """Count that this rank's stop at a site is over."""
        self._completed[site] += 1

    def arrivals(self) -> tuple[Arrival, ...]:
        """Return what is to be restated whenever this rank registers or reports."""
        # The stopping thread may add a site meanwhile.
        arrived = tuple(self._arrived.items())
        return tuple(
            fitted(Arrival, site=site, arrived=count, completed=self._completed[site]) for site, count in arrived
        )

    # --------------------------------------------------------------------------------------------------- a held rank

    @property
    def lost_seconds(self) -> float:
        """Return for how long this rank waits for a chosen rank that is stopped and lost."""
        return self._lost

    def visit(self, site: str, ranks: tuple[int, ...]) -> Waiting:
        """Count that a thread has come to a site; return what the thread must wait for."""
        self._visits[site] += 1
        return fitted(Waiting, site=site, count=self._visits[site], ranks=ranks)

    def wait(self, waiting: Waiting, grace: float, lost: float = HOLD_LOST_SECONDS) -> None:
        """Begin to wait.

        A rank that has not come is waited for ``grace`` seconds, a rank that is stopped and lost ``lost`` seconds.
        """
        self._grace, self._lost = grace, lost
        self._missing_since = dict.fromkeys(waiting.ranks, self._clock())
        self._heard = {}
        self.waiting = waiting

    def end(self, waiting: Waiting) -> None:
        """End this wait, unless another thread's wait has begun by now."""
        if self.waiting is waiting:
            self.waiting = None

    def hear(self, site: str, ranks: tuple[ChosenRank, ...]) -> None:
        """Take in how far the chosen ranks are."""
        waiting = self.waiting
        if waiting is None or site != waiting.site:
            return
        now = self._clock()
        for chosen in ranks:
            known = self._heard.get(chosen.rank)
            is_unknown = chosen.state is None and chosen.completed < waiting.count
            if not is_unknown or known is None or not _stands(known, waiting):
                # A broker that has just started may not know yet that the chosen rank is stopped.
                self._heard[chosen.rank] = chosen
            if _is_there(chosen, waiting):
                self._missing_since.pop(chosen.rank, None)
            else:
                self._missing_since.setdefault(chosen.rank, now)

    def begin_anew(self) -> None:
        """Restart the time limits of missing ranks: a broker has just come back, and the ranks follow."""
        self._missing_since = dict.fromkeys(self._missing_since, self._clock())

    def judge(self) -> HoldVerdict:
        """Return whether this rank goes on now."""
        waiting = self.waiting
        if waiting is None:
            return HoldVerdict(False)
        now = self._clock()
        gone: list[int] = []
        absent: list[int] = []
        given_up: list[int] = []
        lost: list[int] = []
        again: float | None = None
        for rank in waiting.ranks:
            chosen = self._heard.get(rank)
            if chosen is not None and chosen.completed >= waiting.count:
                continue
            if chosen is not None and chosen.state is RankState.EXITED:
                gone.append(rank)
            elif (since := self._missing_since.get(rank)) is None:
                # The chosen rank is stopped there, and this rank waits until that stop is over.
                again = math.inf
            else:
                stands = chosen is not None and _stands(chosen, waiting)
                until = since + (self._lost if stands else self._grace)
                if now < until:
                    again = until if again is None else min(again, until)
                    lost += [rank] if stands else []
                elif stands:
                    given_up.append(rank)
                else:
                    absent.append(rank)
        if again is not None:
            return HoldVerdict(False, again=None if again == math.inf else again, lost=tuple(lost))
        return HoldVerdict(True, self._why(waiting.site, gone, absent, given_up))

    def _why(self, site: str, gone: list[int], absent: list[int], given_up: list[int]) -> str:
        said = []
        if gone:
            said.append(f"rank {format_ranks(gone)} has exited")
        if absent:
            said.append(f"rank {format_ranks(absent)} is not at {site} within {self._grace:g} s")
        if given_up:
            said.append(f"rank {format_ranks(given_up)}, stopped at {site}, has been lost for {self._lost:g} s")
        return " and ".join(said)


def _stands(chosen: ChosenRank, waiting: Waiting) -> bool:
    """Tell whether a chosen rank was stopped at the site at the last report of it."""
    return chosen.arrived >= waiting.count > chosen.completed and chosen.state is not RankState.EXITED


def _is_there(chosen: ChosenRank, waiting: Waiting) -> bool:
    """Tell whether a chosen rank has come to the site, and is neither lost nor gone."""
    return chosen.arrived >= waiting.count and chosen.state not in (None, RankState.LOST, RankState.EXITED)
