"""Where a rank is in its program: the place and the stack of the thread that is stopped, or of the main thread."""

from __future__ import annotations

import threading
import time
from types import FrameType
from typing import Protocol

from dbg_agent.rank.threads import thread_stacks
from dbg_agent.rank.unmoved import Unmoved
from dbg_agent.stop.crash import Crash
from dbg_agent.stop.stacks import place_of, stack_of, thread_frame, traceback_of
from dbg_agent.stop.stops import Stops
from dbg_wire.records.ranks import Place, ThreadStack


class HaltedStop(Protocol):
    """The parts of the current stop that its position needs."""

    frame: FrameType | None
    crash: Crash | None


class Position:
    """Where a rank is, to be asked from any thread."""

    def __init__(self, stops: Stops, stopping: HaltedStop) -> None:
        self._stops = stops
        self._stopping = stopping
        self._unmoved = Unmoved()

    def moving_place(self) -> Place | None:
        """Return the place of the stop's thread, or else of the main thread, now; None while it is halted."""
        if self._stands():
            return None
        frame = self._moving_frame()
        return place_of(frame) if frame is not None else None

    def stack(self) -> tuple[Place, ...]:
        """Return the stack of the stop's thread, or else of the main thread."""
        crash = self._stopping.crash
        if crash is not None:
            return traceback_of(crash.error.__traceback__)
        if not self._stands():
            return stack_of(self._moving_frame())
        # A stop is told of a moment before it has begun.
        return stack_of(self._stopping.frame or self._stops.arrived_at)

    def threads(self) -> tuple[ThreadStack, ...]:
        """Return the stacks of all threads of the program."""
        return thread_stacks(self._stops.owner if self._stands() else None, self.stack())

    def age(self) -> tuple[float | None, bool]:
        """Return for how many seconds the rank has been where :meth:`stack` says, and whether it may be longer.

        The seconds are None where they are unknown.
        """
        if self._stands():
            return time.monotonic() - self._stops.stands_since, False
        if self._stops.owner not in (None, threading.main_thread().ident):
            return None, False
        seconds = self._unmoved.look()
        return seconds, seconds is not None

    def _stands(self) -> bool:
        return self._stops.is_halted and not self._stops.is_busy

    def _moving_frame(self) -> FrameType | None:
        """Return the innermost frame of the thread that steps, or else of the main thread."""
        return thread_frame(self._stops.owner or threading.main_thread().ident)
