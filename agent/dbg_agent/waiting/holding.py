"""The waits of this rank: for chosen ranks that are stopped, and at its exit for ranks that are kept after a crash.

A wait is a stop that no user asked for: the thread takes work meanwhile, so it answers questions, and terminals can
attach. Methods named ``on_…`` run in the link's thread, the others in the thread that waits unless they say otherwise.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from dbg_agent.stderr import say
from dbg_agent.stop.inbox import GoOn, Inbox
from dbg_agent.stop.port import ThreadStopper
from dbg_agent.stop.stops import HELD, Stops
from dbg_agent.waiting.hold_counts import HoldCounts
from dbg_wire.messages import Chosen, Kept, Waiting
from dbg_wire.targets.rank_set import format_ranks

RESTATED_SECONDS = 10.0
"""Seconds after a welcome within which a new broker knows all kept ranks: each rank dials again within three."""


class HeldRank(Protocol):
    """What a wait for other ranks needs of the rank that waits."""

    stops: Stops
    inbox: Inbox

    @property
    def number(self) -> int:
        """Return the rank's global number."""

    @property
    def address(self) -> str:
        """Return the name by which terminals address this rank."""

    @property
    def is_connected(self) -> bool:
        """Tell whether a broker knows this rank now."""

    @property
    def stopping(self) -> ThreadStopper:
        """Return the object that stops the calling thread."""

    def publish(self) -> None:
        """Have a report sent."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Have the link's thread call ``call`` after some seconds."""


class Holding:
    """The waits of this rank, and their ends."""

    def __init__(self, rank: HeldRank) -> None:
        self._rank = rank
        self.counts = HoldCounts(time.monotonic)
        self._wanted: dict[int, tuple[Waiting, float, float]] = {}
        """What each thread at a hold will wait for, with its two time limits, until the thread's turn to stop comes."""
        self._kept: tuple[int, ...] = ()
        self._kept_told = 0
        self._lost_told: tuple[int, ...] = ()
        self._let_go = 0
        """The number of the last stop that was ended."""
        self._exit_stop: int | None = None
        """The number of the stop that holds this rank's exit."""

    @property
    def waiting(self) -> Waiting | None:
        """Return what this rank waits for now; None if it is not held."""
        return self.counts.waiting if self._rank.stops.is_hold else None

    def hold(self, frame: FrameType, site: str, ranks: tuple[int, ...], grace: float, lost: float) -> None:
        """Wait at ``frame`` until these ranks have completed their stop at the site, or are gone.

        A rank that has not come is waited for ``grace`` seconds, a rank that is stopped and lost ``lost`` seconds.
        """
        rank = self._rank
        waiting = self.counts.visit(site, ranks)
        if rank.stops.is_mine():
            # A user steps through this rank, and a wait for other ranks would take it away from the user.
            say(f"{rank.address} is not held at {site} for rank {format_ranks(ranks)}, since it is being stepped")
            return
        say(
            f"{rank.address} is held at {site} while rank {format_ranks(ranks)} is stopped there; "
            f"`dbg-attach held --release` lets it go on"
        )
        thread = threading.get_ident()
        self._wanted[thread] = waiting, grace, lost
        try:
            rank.stopping.stop(frame, HELD)
        finally:
            self._wanted.pop(thread, None)
            self.counts.end(waiting)
            rank.publish()

    def hold_exit(self, seconds: float) -> None:
        """Wait while other ranks of the run are kept after a crash, since the launcher would end them at this exit.

        Without a broker, which reports the kept ranks, the wait lasts ``seconds`` at most.
        """
        others = self._others_kept()
        frame: FrameType | None = sys._getframe(1)
        if not others or not seconds or frame is None:
            return
        # A step may have led to the end of the program, and has no line left to end at.
        self._rank.stopping.end_step()
        if self._rank.stops.is_mine():
            return
        say(f"{self._rank.address} holds its exit while rank {format_ranks(others)} is kept after a crash")
        self._rank.call_later(seconds, lambda: self._held_long(seconds))
        try:
            self._rank.stopping.stop(frame, HELD, detail="holds its exit")
        finally:
            self._exit_stop = None

    # ------------------------------------------------------------------------------------------- in the link's thread

    def begun(self) -> None:
        """Take in that the wait has become the current stop; in the thread that waits."""
        wanted = self._wanted.pop(threading.get_ident(), None)
        if wanted is not None:
            self.counts.wait(*wanted)
            # The reports of this stop did not say yet which ranks it waits for.
            self._rank.publish()
            self._judge()
            return
        self._exit_stop = self._rank.stops.number
        self._judge_exit()

    def welcomed(self, uptime: float) -> None:
        """Take in that a broker knows this rank. The broker then reports anew which ranks are still kept.

        ``uptime`` is the broker's. The other ranks have not all come back yet to a broker that has just started.
        """
        if uptime < RESTATED_SECONDS:
            self.counts.begin_anew()
        told = self._kept_told
        self._rank.call_later(RESTATED_SECONDS, lambda: self._forget_kept(told))

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
            self._rank.call_later(max(0.0, verdict.again - time.monotonic()), self._judge)
        if verdict.lost and verdict.lost != self._lost_told:
            self._tell_lost(verdict.lost)
        self._lost_told = verdict.lost

    def _tell_lost(self, lost: tuple[int, ...]) -> None:
        waiting = self.waiting
        if waiting is not None:
            address, limit = self._rank.address, self.counts.lost_seconds
            say(
                f"{address} stays held: rank {format_ranks(lost)}, stopped at {waiting.site}, is lost, and may come "
                f"back within {limit:g} s; `dbg-attach held --release` lets it go on"
            )

    def _judge_exit(self) -> None:
        if not self._others_kept():
            self._end_exit("")

    def _held_long(self, seconds: float) -> None:
        """Go on unless a broker is connected: a user may debug a kept rank, which then has no time limit."""
        if self._rank.is_connected:
            self._rank.call_later(seconds, lambda: self._held_long(seconds))
        else:
            self._end_exit("has waited long enough")

    def _end_exit(self, why: str) -> None:
        if self._exit_stop is not None and self._exit_stop == self._rank.stops.current[0]:
            self._go_on(why)

    def _go_on(self, why: str) -> None:
        rank = self._rank
        stop, _ = rank.stops.current
        if stop is None or not rank.stops.is_hold:
            # A user has attached by now, and decides when this rank goes on.
            return
        if stop == self._let_go:
            return
        self._let_go = stop
        # The thread that goes on says so: the process may end right after, and a stream of the program's own may block.
        rank.inbox.put(stop, GoOn(lambda: say(f"{rank.address} goes on: {why}") if why else None))

    def _others_kept(self) -> tuple[int, ...]:
        return tuple(rank for rank in self._kept if rank != self._rank.number)
