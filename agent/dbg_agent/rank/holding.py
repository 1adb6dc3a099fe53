"""The waits of this rank: for chosen ranks that are stopped, and at its exit for ranks that are kept after a crash.

A wait is a stop that no user asked for: the thread takes work meanwhile, so it answers questions, and terminals can
attach. No collective is used, so no rank can hang in one: a chosen rank counts how often it has arrived at a site and
how often its stop there is over, and a held rank waits, on its n-th visit, until every chosen rank has completed n
stops, or is gone. The ranks keep these counts, so they survive the broker.

Methods named ``on_…`` run in the link's thread, the others in the thread that waits unless they say otherwise.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from dbg_agent.process.log import say
from dbg_agent.settings import HOLD_GRACE_SECONDS
from dbg_agent.stop.inbox import GoOn
from dbg_agent.stop.stops import HELD
from dbg_wire.messages import Arrival, Chosen, ChosenRank, Kept, Waiting
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import fitted

if TYPE_CHECKING:
    from dbg_agent.link.outgoing import ToBroker
    from dbg_agent.stop.inbox import Inbox
    from dbg_agent.stop.stops import Stops

MAX_SITES = 256
"""Sites whose counts are restated. Only a generated program has more of them; the oldest are then forgotten."""

HOLD_LOST_SECONDS = 600.0
"""Seconds that a held rank waits for a chosen rank that is stopped and lost: a broken network is repaired by then."""

RESTATED_SECONDS = 10.0
"""Seconds after a welcome within which a new broker knows all kept ranks: each rank dials again within three."""


@dataclass(frozen=True, slots=True)
class HoldVerdict:
    """Whether a held rank goes on, why in a sentence or "", and when to judge again at the latest."""

    goes_on: bool
    why: str = ""
    again: float | None = None


class HoldCounts:
    """This rank's counts of arrivals and visits, and the judgement on the ranks that it waits for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._arrived: Counter[str] = Counter()
        self._completed: Counter[str] = Counter()
        self._visits: Counter[str] = Counter()
        self._grace = HOLD_GRACE_SECONDS
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

    def visit(self, site: str, ranks: tuple[int, ...]) -> Waiting:
        """Count that a thread has come to a site; return what the thread must wait for."""
        self._visits[site] += 1
        return fitted(Waiting, site=site, count=self._visits[site], ranks=ranks)

    def wait(self, waiting: Waiting, grace: float) -> None:
        """Begin to wait; a rank that has not come is waited for ``grace`` seconds."""
        self._grace = grace
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
                until = since + (HOLD_LOST_SECONDS if stands else self._grace)
                if now < until:
                    again = until if again is None else min(again, until)
                elif stands:
                    given_up.append(rank)
                else:
                    absent.append(rank)
        if again is not None:
            return HoldVerdict(False, again=None if again == math.inf else again)
        return HoldVerdict(True, self._why(waiting.site, gone, absent, given_up))

    def _why(self, site: str, gone: list[int], absent: list[int], given_up: list[int]) -> str:
        said = []
        if gone:
            said.append(f"rank {_ranks(gone)} has exited")
        if absent:
            said.append(f"rank {_ranks(absent)} is not at {site} within {self._grace:g} s")
        if given_up:
            said.append(f"rank {_ranks(given_up)}, stopped at {site}, has been lost for {HOLD_LOST_SECONDS:g} s")
        return " and ".join(said)


def _ranks(ranks: Iterable[int]) -> str:
    from dbg_wire.rank_set import format_ranks

    return format_ranks(ranks)


def _stands(chosen: ChosenRank, waiting: Waiting) -> bool:
    """Tell whether a chosen rank was stopped at the site at the last report of it."""
    return chosen.arrived >= waiting.count > chosen.completed and chosen.state is not RankState.EXITED


def _is_there(chosen: ChosenRank, waiting: Waiting) -> bool:
    """Tell whether a chosen rank has come to the site, and is neither lost nor gone."""
    return chosen.arrived >= waiting.count and chosen.state not in (None, RankState.LOST, RankState.EXITED)


class HeldThread(Protocol):
    """Stops the calling thread, which is how it waits."""

    def stop(self, frame: FrameType, reason: str) -> None:
        """Stop the calling thread at this frame until it is let go."""

    def end_step(self) -> None:
        """End the stop of the calling thread if it steps."""


class Holding:
    """The waits of this rank, and their ends."""

    def __init__(
        self,
        broker: ToBroker,
        stops: Stops,
        inbox: Inbox,
        thread: HeldThread,
        is_connected: Callable[[], bool],
    ) -> None:
        self._broker = broker
        self._stops = stops
        self._inbox = inbox
        self._thread = thread
        self._is_connected = is_connected
        self.counts = HoldCounts(time.monotonic)
        self._wanted: dict[int, tuple[Waiting, float]] = {}
        """What each thread at a hold will wait for, with its time limit, until the thread's turn to stop comes."""
        self._kept: tuple[int, ...] = ()
        self._kept_told = 0
        self._let_go = 0
        """The number of the last stop that was ended."""
        self._exit_stop: int | None = None
        """The number of the stop that holds this rank's exit."""

    @property
    def waiting(self) -> Waiting | None:
        """Return what this rank waits for now; None if it is not held."""
        return self.counts.waiting if self._stops.is_hold else None

    def hold(self, frame: FrameType, site: str, ranks: tuple[int, ...], grace: float) -> None:
        """Wait at ``frame`` until these ranks have completed their stop at the site, or are gone.

        A rank that has not come is waited for ``grace`` seconds, a rank that is stopped and lost HOLD_LOST_SECONDS.
        """
        waiting = self.counts.visit(site, ranks)
        if self._stops.is_mine():
            # A user steps through this rank, and a wait for other ranks would take it away from the user.
            awaited = f"rank {_ranks(ranks)}"
            say(f"{self._broker.address} is not held at {site} for {awaited}, since it is being stepped")
            return
        say(
            f"{self._broker.address} is held at {site} while rank {_ranks(ranks)} is stopped there; "
            f"`dbg-attach release held` lets it go on"
        )
        thread = threading.get_ident()
        self._wanted[thread] = waiting, grace
        try:
            self._thread.stop(frame, HELD)
        finally:
            self._wanted.pop(thread, None)
            self.counts.end(waiting)
            self._broker.publish()

    def hold_exit(self, seconds: float) -> None:
        """Wait while other ranks of the run are kept after a crash, since the launcher would end them at this exit.

        Without a broker, which reports the kept ranks, the wait lasts ``seconds`` at most.
        """
        others = self._others_kept()
        frame: FrameType | None = sys._getframe(1)
        if not others or not seconds or frame is None:
            return
        # A step may have led to the end of the program, and has no line left to end at.
        self._thread.end_step()
        if self._stops.is_mine():
            return
        say(f"{self._broker.address} holds its exit while rank {_ranks(others)} is kept after a crash")
        self._broker.call_later(seconds, lambda: self._held_long(seconds))
        try:
            self._thread.stop(frame, HELD)
        finally:
            self._exit_stop = None

    # ------------------------------------------------------------------------------------------- in the link's thread

    def begun(self) -> None:
        """Take in that the wait has become the current stop; in the thread that waits."""
        wanted = self._wanted.pop(threading.get_ident(), None)
        if wanted is not None:
            self.counts.wait(*wanted)
            # The reports of this stop did not say yet which ranks it waits for.
            self._broker.publish()
            self._judge()
            return
        self._exit_stop = self._stops.number
        self._judge_exit()

    def welcomed(self, uptime: float) -> None:
        """Take in that a broker knows this rank. The broker then reports anew which ranks are still kept.

        ``uptime`` is the broker's. The other ranks have not all come back yet to a broker that has just started.
        """
        if uptime < RESTATED_SECONDS:
            self.counts.begin_anew()
        told = self._kept_told
        self._broker.call_later(RESTATED_SECONDS, lambda: self._forget_kept(told))

    def on_chosen(self, message: Chosen) -> None:
        """Take in how far the chosen ranks are, and go on if they are far enough."""
        self.counts.hear(message.site, message.ranks)
        self._judge()

    def on_kept(self, message: Kept) -> None:
        """Take in which ranks of this run are kept after a crash."""
        self._kept = message.ranks
        self._kept_told += 1
        self._judge_exit()

    def _forget_kept(self, told: int) -> None:
        """Forget kept ranks if this broker hasn't reported any: they ended while no broker ran."""
        if self._kept_told == told:
            self._kept = ()
            self._judge_exit()

    def _judge(self) -> None:
        if self.waiting is None:
            return
        verdict = self.counts.judge()
        if verdict.goes_on:
            self._go_on(verdict.why)
            return
        if verdict.again is not None:
            self._broker.call_later(max(0.0, verdict.again - time.monotonic()), self._judge)

    def _judge_exit(self) -> None:
        if not self._others_kept():
            self._end_exit("")

    def _held_long(self, seconds: float) -> None:
        """Go on unless a broker is connected: a user may debug a kept rank, which then has no time limit."""
        if self._is_connected():
            self._broker.call_later(seconds, lambda: self._held_long(seconds))
        else:
            self._end_exit("has waited long enough")

    def _end_exit(self, why: str) -> None:
        if self._exit_stop is not None and self._exit_stop == self._stops.current[0]:
            self._go_on(why)

    def _go_on(self, why: str) -> None:
        stop, _ = self._stops.current
        if stop is None or not self._stops.is_hold:
            # A user has attached by now, and decides when this rank goes on.
            return
        if stop == self._let_go:
            return
        self._let_go = stop
        # The thread that goes on says so: the process may end right after, and a stream of the program's own may block.
        self._inbox.put(stop, GoOn(lambda: say(f"{self._broker.address} goes on: {why}") if why else None))

    def _others_kept(self) -> tuple[int, ...]:
        return tuple(rank for rank in self._kept if rank != self._broker.number)
