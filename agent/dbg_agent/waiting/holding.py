"""Have this rank wait for others: for chosen ranks that are stopped, and with its exit for ranks kept after a crash.

Such a wait is a stop that nobody asked for: the thread takes work meanwhile, so it answers questions and can be looked
at. Methods named ``on_…`` run in the link's thread, the others in the thread that waits.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from dbg_wire.messages import Chosen, Kept, Waiting
from dbg_wire.rank_set import format_ranks

from ..stderr import say
from ..stop.inbox import GoOn, Inbox
from ..stop.port import ThreadStopper
from ..stop.stops import HELD, Stops
from .hold_counts import HoldCounts

RESTATED_SECONDS = 10.0
"""Seconds after a welcome within which a new broker has heard of all kept ranks: each dials again within three."""


class HeldRank(Protocol):
    """Say what a wait for others needs of the rank that waits."""

    stops: Stops
    inbox: Inbox

    @property
    def number(self) -> int:
        """Return the rank's global number."""

    @property
    def address(self) -> str:
        """Return what terminals call this rank."""

    @property
    def is_connected(self) -> bool:
        """Tell whether a broker knows this rank now."""

    @property
    def stopping(self) -> ThreadStopper:
        """Return what stops the calling thread."""

    def publish(self) -> None:
        """Have a report sent."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the link's thread after some seconds."""


class Holding:
    """Wait for other ranks, and go on when what is waited for is over."""

    def __init__(self, rank: HeldRank) -> None:
        self._rank = rank
        self.counts = HoldCounts(time.monotonic)
        self._wanted: dict[int, tuple[Waiting, float, float]] = {}
        """What each thread that comes to a hold waits for, with its two time limits, until it has its turn to stop."""
        self._kept: tuple[int, ...] = ()
        self._kept_told = 0
        self._lost_told: tuple[int, ...] = ()
        self._let_go = 0
        """The number of the last stop that was ended."""
        self._exit_stop: int | None = None
        """The number of the stop that holds this rank's exit."""

    @property
    def waiting(self) -> Waiting | None:
        """Return what this rank is held for now."""
        return self.counts.waiting if self._rank.stops.is_hold else None

    def hold(self, frame: FrameType, site: str, ranks: tuple[int, ...], grace: float, lost: float) -> None:
        """Wait at ``frame`` until these ranks have completed their stop at the site, or are gone.

        For ``grace`` seconds at most while one has not come, for ``lost`` seconds while one is lost that stands there.
        """
        rank = self._rank
        waiting = self.counts.visit(site, ranks)
        if rank.stops.is_mine():
            # Stepping here, somebody debugs this rank; waiting for another one would take it from them.
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
        """Wait while other ranks of the run are kept after a crash: an exit would end them.

        At most so long without a broker, which tells of them.
        """
        others = self._others_kept()
        frame: FrameType | None = sys._getframe(1)
        if not others or not seconds or frame is None:
            return
        # Stepped to its end, the program has nothing left to stop in.
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
        """Be told that the wait has become the current stop; in the thread that waits."""
        wanted = self._wanted.pop(threading.get_ident(), None)
        if wanted is not None:
            self.counts.wait(*wanted)
            # What was reported of this stop so far did not say whom it waits for.
            self._rank.publish()
            self._judge()
            return
        self._exit_stop = self._rank.stops.number
        self._judge_exit()

    def welcomed(self, uptime: float) -> None:
        """Take in that a broker knows this rank: whoever is still kept is told of anew.

        To one that is up for only ``uptime`` seconds the other ranks come back as well, in a moment.
        """
        if uptime < RESTATED_SECONDS:
            self.counts.begin_anew()
        told = self._kept_told
        self._rank.call_later(RESTATED_SECONDS, lambda: self._forget_kept(told))

    def on_chosen(self, message: Chosen) -> None:
        """Take in how far the chosen ranks are, and go on if that is far enough."""
        self.counts.hear(message.site, message.ranks)
        self._judge()

    def on_kept(self, message: Kept) -> None:
        """Take in which ranks of this run are kept after a crash."""
        self._kept = message.ranks
        self._kept_told += 1
        self._judge_exit()

    def _forget_kept(self, told: int) -> None:
        """Forget ranks that the broker before this one told of: they have ended while there was none."""
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
        """Go on at last, unless there is a broker: somebody may debug a kept rank, whose lease is over then."""
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
            # Somebody sits at it by now, and lets it go on when they want to.
            return
        if stop == self._let_go:
            return
        self._let_go = stop
        rank.inbox.put(stop, GoOn(_nothing))
        if why:
            # Afterwards, since a job's stderr that nobody reads keeps whoever writes to it.
            say(f"{rank.address} goes on: {why}")

    def _others_kept(self) -> tuple[int, ...]:
        return tuple(rank for rank in self._kept if rank != self._rank.number)


def _nothing() -> None:
    """Tell nobody: the report that follows says it."""
