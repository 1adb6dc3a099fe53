"""Have this rank wait for others: for chosen ranks that are stopped, and with its exit for ranks kept after a crash.

Such a wait is a stop that nobody asked for: the thread takes work meanwhile, so it answers questions and can be looked
at. Methods named ``on_…`` run in the link's thread, the others in the thread that waits.
"""

from __future__ import annotations

import sys
import time
from types import FrameType
from typing import TYPE_CHECKING

from dbg_wire.messages import Chosen, Kept, Waiting
from dbg_wire.rank_set import format_ranks

from .hold import Holds
from .inbox import GoOn
from .say import say
from .stop import HELD

if TYPE_CHECKING:
    from .rank import Rank


class Waits:
    """Wait, and go on when what is waited for is over."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self.holds = Holds(time.monotonic)
        self._kept: tuple[int, ...] = ()
        self._for_kept = False

    @property
    def waiting(self) -> Waiting | None:
        """Return what this rank is held for now."""
        return self.holds.waiting if self._rank.stops.is_hold else None

    def hold(self, frame: FrameType, site: str, ranks: tuple[int, ...], grace: float) -> None:
        """Wait at ``frame`` until these ranks have completed their stop at the site, or are gone."""
        rank = self._rank
        self.holds.wait(site, ranks, grace)
        try:
            if rank.stops.is_mine():
                # Stepping here, somebody debugs this rank; waiting for another one would take it from them.
                say(f"{rank.address} is not held at {site} for rank {format_ranks(ranks)}, since it is being stepped")
                return
            say(
                f"{rank.address} is held at {site} while rank {format_ranks(ranks)} is stopped there; "
                f"`dbg-attach held --release` lets it go on"
            )
            rank.stop(frame, HELD)
        finally:
            self.holds.end()
            rank.publish()

    def hold_exit(self, seconds: float) -> None:
        """Wait, at most so long, while other ranks of the run are kept after a crash: an exit would end them."""
        others = self._others_kept()
        frame: FrameType | None = sys._getframe(1)
        if not others or frame is None or self._rank.stops.is_mine():
            return
        say(f"{self._rank.address} holds its exit while rank {format_ranks(others)} is kept after a crash")
        self._for_kept = True
        self._rank.link.call_later(seconds, lambda: self._go_on("has waited long enough"))
        try:
            self._rank.stop(frame, HELD, detail="holds its exit")
        finally:
            self._for_kept = False

    # ------------------------------------------------------------------------------------------- in the link's thread

    def begun(self) -> None:
        """Be told that the wait has become the current stop; in the thread that waits."""
        if self._for_kept:
            if not self._others_kept():
                self._go_on("")
        else:
            self._judge()

    def on_chosen(self, message: Chosen) -> None:
        """Take in how far the chosen ranks are, and go on if that is far enough."""
        self.holds.hear(message.site, message.ranks)
        self._judge()

    def on_kept(self, message: Kept) -> None:
        """Take in which ranks of this run are kept after a crash."""
        self._kept = message.ranks
        if self._for_kept and not self._others_kept():
            self._go_on("")

    def _judge(self) -> None:
        if self.waiting is None:
            return
        verdict = self.holds.judge()
        if verdict.goes_on:
            self._go_on(verdict.why)
        elif verdict.again is not None:
            self._rank.link.call_later(max(0.0, verdict.again - time.monotonic()), self._judge)

    def _go_on(self, why: str) -> None:
        rank = self._rank
        stop, _ = rank.stops.current
        if stop is None or not rank.stops.is_hold:
            # Somebody sits at it by now, and lets it go on when they want to.
            return
        if why:
            say(f"{rank.address} goes on: {why}")
        rank.inbox.put(stop, GoOn(_nothing))

    def _others_kept(self) -> tuple[int, ...]:
        return tuple(rank for rank in self._kept if rank != self._rank.identity.rank)


def _nothing() -> None:
    """Tell nobody: the report that follows says it."""
