"""Holds of this rank: it waits for chosen ranks that are stopped, and at its exit for ranks kept after a crash.

A hold is a stop that no user requested: the waiting thread answers questions, and terminals can attach. A hold uses no
collective, so no rank can hang in one. A site is a line of the program where only the chosen ranks stop. A chosen rank
counts its arrivals at a site and its completed stops there. A held rank waits, on its n-th visit to the site, until
every chosen rank has completed n stops there or is gone. The ranks keep these counts, so they survive a restart of the
broker.

Methods named ``on_…`` run in the link's thread. Other methods run in the waiting thread unless noted otherwise.
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

from dbg_agent.process.log import write_stderr
from dbg_agent.settings import HOLD_GRACE_SECONDS
from dbg_agent.stop.inbox import ResumeThread
from dbg_agent.stop.stops import HELD
from dbg_wire.messages import Arrival, Chosen, ChosenRank, KeptRanks, Waiting
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from dbg_agent.link.outgoing import ToBroker
    from dbg_agent.stop.inbox import Inbox
    from dbg_agent.stop.stops import Stops

MAX_SITES = 256
"""Maximum number of sites whose counts are reported. Only generated programs have more; the oldest are forgotten."""

HOLD_LOST_SECONDS = 600.0
"""How long, in seconds, a held rank waits for a chosen rank that was stopped when its connection to the broker was
lost: long enough to repair a network."""

RESTATED_SECONDS = 10.0
"""Seconds after which a new broker knows all ranks that are kept after a crash, counted from its welcome to this rank:
each rank dials again within three seconds."""


@dataclass(frozen=True, slots=True)
class HoldVerdict:
    """Whether a held rank continues, the reason as a sentence or "", and when to decide again at the latest."""

    resumes: bool
    why: str = ""
    again: float | None = None


class HoldCounts:
    """Counts of the rank's arrivals and visits, and the decision whether it still waits for chosen ranks."""

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
        """Count a stop of this rank at a site where other ranks are held."""
        if site not in self._arrived and len(self._arrived) >= MAX_SITES:
            oldest = next(iter(self._arrived))
            del self._arrived[oldest], self._completed[oldest]
        self._arrived[site] += 1

    def complete(self, site: str) -> None:
        """Count the end of this rank's stop at a site."""
        self._completed[site] += 1

    def arrivals(self) -> tuple[Arrival, ...]:
        """Return the counts by site. Each registration and report of this rank contains them."""
        # A copy, because the stopping thread may add a site.
        arrived = tuple(self._arrived.items())
        return tuple(
            clamp(Arrival, site=site, arrived=count, completed=self._completed[site]) for site, count in arrived
        )

    # --------------------------------------------------------------------------------------------------- a held rank

    def visit(self, site: str, ranks: tuple[int, ...]) -> Waiting:
        """Count the arrival of a thread that will be held at a site; return what it must wait for."""
        self._visits[site] += 1
        return clamp(Waiting, site=site, count=self._visits[site], ranks=ranks)

    def wait(self, waiting: Waiting, grace: float) -> None:
        """Start a wait. It waits ``grace`` seconds for a rank that has not arrived at the site."""
        self._grace = grace
        self._missing_since = dict.fromkeys(waiting.ranks, self._clock())
        self._heard = {}
        self.waiting = waiting

    def end(self, waiting: Waiting) -> None:
        """End this wait, unless another thread's wait has already started."""
        if self.waiting is waiting:
            self.waiting = None

    def hear(self, site: str, ranks: tuple[ChosenRank, ...]) -> None:
        """Update the counts of the chosen ranks."""
        waiting = self.waiting
        if waiting is None or site != waiting.site:
            return
        now = self._clock()
        for chosen in ranks:
            known = self._heard.get(chosen.rank)
            is_unknown = chosen.state is None and chosen.completed < waiting.count
            if not is_unknown or known is None or not _is_stopped(known, waiting):
                # The earlier counts are kept if they say that the chosen rank is stopped at the site, and this broker
                # doesn't know the rank. A broker that has just started may not have heard of the rank yet.
                self._heard[chosen.rank] = chosen
            if _is_there(chosen, waiting):
                self._missing_since.pop(chosen.rank, None)
            else:
                self._missing_since.setdefault(chosen.rank, now)

    def start_again(self) -> None:
        """Restart the timeouts of missing ranks, because a broker has just restarted and the ranks reconnect to it."""
        self._missing_since = dict.fromkeys(self._missing_since, self._clock())

    def judge(self) -> HoldVerdict:
        """Decide whether this rank continues now."""
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
                # The chosen rank is stopped at the site, so this rank waits for the end of that stop.
                again = math.inf
            else:
                is_stopped = chosen is not None and _is_stopped(chosen, waiting)
                until = since + (HOLD_LOST_SECONDS if is_stopped else self._grace)
                if now < until:
                    again = until if again is None else min(again, until)
                elif is_stopped:
                    given_up.append(rank)
                else:
                    absent.append(rank)
        if again is not None:
            return HoldVerdict(False, again=None if again == math.inf else again)
        return HoldVerdict(True, self._why(waiting.site, gone, absent, given_up))

    def _why(self, site: str, gone: list[int], absent: list[int], given_up: list[int]) -> str:
        sentences = []
        if gone:
            sentences.append(f"rank {_ranks(gone)} has exited")
        if absent:
            sentences.append(f"rank {_ranks(absent)} has not reached {site} within {self._grace:g} s")
        if given_up:
            sentences.append(f"rank {_ranks(given_up)}, stopped at {site}, has been lost for {HOLD_LOST_SECONDS:g} s")
        return " and ".join(sentences)


def _ranks(ranks: Iterable[int]) -> str:
    from dbg_wire.rank_set import format_ranks

    return format_ranks(ranks)


def _is_stopped(chosen: ChosenRank, waiting: Waiting) -> bool:
    """Return True if the chosen rank was stopped at the site according to its last report."""
    return chosen.arrived >= waiting.count > chosen.completed and chosen.state is not RankState.EXITED


def _is_there(chosen: ChosenRank, waiting: Waiting) -> bool:
    """Return True if the chosen rank has arrived at the site and is neither lost nor gone."""
    return chosen.arrived >= waiting.count and chosen.state not in (None, RankState.LOST, RankState.EXITED)


class HeldThread(Protocol):
    """Interface that stops the calling thread, so that the thread waits."""

    def stop(self, frame: FrameType, reason: str) -> None:
        """Stop the calling thread at this frame until it is resumed."""

    def end_step(self) -> None:
        """End the stop of the calling thread if it is stepping."""


class Holding:
    """The holds of this rank: starts waits and ends them."""

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
        self._awaited: dict[int, tuple[Waiting, float]] = {}
        """The waits that have not begun, by thread, each with its timeout. A wait begins when it is the thread's turn
        to stop."""
        self.kept: tuple[int, ...] = ()
        self.others_are_kept = threading.Event()
        """Set while other ranks of the run are kept, after a crash or at a wrong number."""
        self.times_kept = 0
        """How often other ranks have become kept."""
        self._kept_reported = 0
        self._let_go = 0
        """The number of the most recent stop that this object has ended."""
        self._kept_stop: int | None = None
        """The number of the stop that waits for kept ranks, at this rank's exit or in a watch."""

    @property
    def waiting(self) -> Waiting | None:
        """The wait of this rank, or None if it is not held."""
        return self.counts.waiting if self._stops.is_hold else None

    def hold(self, frame: FrameType, site: str, ranks: tuple[int, ...], grace: float) -> None:
        """Wait at ``frame`` until these ranks have completed their stop at the site, or are gone.

        The timeout is ``grace`` seconds for a rank that has not arrived, and HOLD_LOST_SECONDS for a rank that is
        stopped and lost.
        """
        waiting = self.counts.visit(site, ranks)
        if self._stops.is_mine():
            # A user is stepping through this rank, and a hold would take it away from the user.
            awaited = f"rank {_ranks(ranks)}"
            write_stderr(f"{self._broker.address} is not held at {site} for {awaited}, because it is being stepped")
            return
        write_stderr(
            f"{self._broker.address} is held at {site} while rank {_ranks(ranks)} is stopped there; "
            f"`dbg-attach release held` resumes it"
        )
        thread = threading.get_ident()
        self._awaited[thread] = waiting, grace
        try:
            self._thread.stop(frame, HELD)
        finally:
            self._awaited.pop(thread, None)
            self.counts.end(waiting)
            self._broker.publish()

    def hold_exit(self, seconds: float) -> None:
        """Wait while other ranks of the run are kept after a crash, because this exit makes the launcher end them.

        Without a broker, which reports the kept ranks, the wait lasts at most ``seconds``.
        """
        others = self._others_kept()
        frame: FrameType | None = sys._getframe(1)
        if not others or not seconds or frame is None:
            return
        # A step may still be running although the program has ended, because no line followed that could halt it.
        self._thread.end_step()
        if self._stops.is_mine():
            return
        write_stderr(f"{self._broker.address} holds its exit while rank {_ranks(others)} is kept")
        self._hold_for_kept(frame, seconds)

    def hold_for_kept(self, frame: FrameType) -> None:
        """Wait at ``frame`` while other ranks of the run are kept after a crash or stopped at a wrong number."""
        others = self._others_kept()
        if others and not self._stops.is_mine():
            write_stderr(f"{self._broker.address} is held while rank {_ranks(others)} is stopped")
            self._hold_for_kept(frame, HOLD_LOST_SECONDS)

    def _hold_for_kept(self, frame: FrameType, seconds: float) -> None:
        self._broker.call_later(seconds, lambda: self._held_long(seconds))
        try:
            self._thread.stop(frame, HELD)
        finally:
            self._kept_stop = None

    # ------------------------------------------------------------------------------------------- in the link's thread

    def begun(self) -> None:
        """Start the checks whether the wait is over, because the hold is now the current stop.

        Called in the waiting thread.
        """
        awaited = self._awaited.pop(threading.get_ident(), None)
        if awaited is not None:
            self.counts.wait(*awaited)
            # The awaited ranks are reported now, because earlier reports of this stop did not contain them.
            self._broker.publish()
            self._judge()
            return
        self._kept_stop = self._stops.number
        self._judge_kept()

    def welcomed(self, uptime: float) -> None:
        """Handle a broker's welcome. Afterwards the broker reports again which ranks are still kept after a crash.

        ``uptime`` is for how many seconds the broker has been running. If it is short, some of the other ranks may not
        have reconnected yet.
        """
        if uptime < RESTATED_SECONDS:
            self.counts.start_again()
        reported = self._kept_reported
        self._broker.call_later(RESTATED_SECONDS, lambda: self._forget_kept(reported))

    def on_chosen(self, message: Chosen) -> None:
        """Update the counts of the chosen ranks, and continue if these have completed enough stops."""
        self.counts.hear(message.site, message.ranks)
        self._judge()

    def on_kept(self, message: KeptRanks) -> None:
        """Store which ranks of this run are kept after a crash."""
        self._keep(message.ranks)
        self._kept_reported += 1
        self._judge_kept()

    def _forget_kept(self, reported: int) -> None:
        """Forget kept ranks if this broker has not reported any: they ended while no broker was running."""
        if self._kept_reported == reported:
            self._keep(())
            self._judge_kept()

    def _keep(self, ranks: tuple[int, ...]) -> None:
        self.kept = ranks
        if self._others_kept():
            self.times_kept += not self.others_are_kept.is_set()
            self.others_are_kept.set()
        else:
            self.others_are_kept.clear()

    def _judge(self) -> None:
        if self.waiting is None:
            return
        verdict = self.counts.judge()
        if verdict.resumes:
            self._go_on(verdict.why)
            return
        if verdict.again is not None:
            self._broker.call_later(max(0.0, verdict.again - time.monotonic()), self._judge)

    def _judge_kept(self) -> None:
        if not self._others_kept():
            self._end_kept("")

    def _held_long(self, seconds: float) -> None:
        """End the hold of the exit if no broker is connected; otherwise check again after the same time.

        While a broker is connected, the wait is not limited, because a user may be debugging a rank that is kept after
        a crash.
        """
        if self._is_connected():
            self._broker.call_later(seconds, lambda: self._held_long(seconds))
        else:
            self._end_kept("it has waited long enough")

    def _end_kept(self, why: str) -> None:
        if self._kept_stop is not None and self._kept_stop == self._stops.current[0]:
            self._go_on(why)

    def _go_on(self, why: str) -> None:
        stop, _ = self._stops.current
        if stop is None or not self._stops.is_hold:
            # A user has attached, and now decides when this rank continues.
            return
        if stop == self._let_go:
            return
        self._let_go = stop
        # The resumed thread prints the reason. The link's thread must not wait for the program's stderr, and might
        # print too late: the process may end right after the stop.
        self._inbox.put(
            stop, ResumeThread(lambda: write_stderr(f"{self._broker.address} continues: {why}") if why else None)
        )

    def _others_kept(self) -> tuple[int, ...]:
        return tuple(rank for rank in self.kept if rank != self._broker.number)
