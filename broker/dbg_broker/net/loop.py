"""The event loop: measures how long keys wait in it, and schedules Python's garbage collection.

A collection of all objects traverses everything that the broker knows. With ten thousand ranks it takes a fifth of a
second, and during that time no key is passed on. By default, Python decides when such a collection starts. Here,
objects that survive a collection are frozen, so that the next collection traverses only newer objects. All objects are
traversed when nobody types.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Coroutine
from typing import Any

from dbg_broker.timers import Timers

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of a histogram's classes, in seconds. A key must wait less than 0.05; the other bounds show
by how much a wait is shorter or longer."""

SWITCH_SECONDS = 0.0005
"""Time after which a computing thread returns the interpreter to the loop, in seconds. The loop releases the
interpreter at each system call, and a key needs several system calls. With Python's default of 5 ms, a busy thread
delays a key by 50 ms and more.
"""

SLEEP_SECONDS = 0.0001
"""Minimum duration of a ``select`` that slept, in seconds. Events of a shorter ``select`` had already arrived."""

TICK_SECONDS = 0.25
"""Interval between two checks whether a collection is due, in seconds: even in a flood of messages, the new objects are
traversed in five milliseconds.
"""

WHOLE_SECONDS = 600.0
"""Interval after which all objects are traversed as soon as nobody types, in seconds."""

WHOLE_AT_LATEST_SECONDS = 6 * 3600.0
"""Interval after which all objects are traversed in any case, in seconds: garbage until then is some KiB per peer."""

NEVER = 1_000_000
"""Number of collections of young objects after which Python itself would start a full one: too high to be reached."""


class Histogram:
    """Histogram of durations, in seconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        """Number of durations in each class; the last class is above all bounds."""
        self.total = 0.0

    def note(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class KeyWaits:
    """Processor time of a loop's thread while keys waited, in seconds; ``spent`` returns the thread's total so far."""

    def __init__(self, spent: Callable[[], float] = time.thread_time) -> None:
        self._spent = spent
        self._woke = self._earliest = spent()
        self.seconds = Histogram()

    def woke(self, *, has_slept: bool) -> None:
        """Record the start of a turn of the loop. If the loop slept just before, no event had arrived earlier."""
        before, self._woke = self._woke, self._spent()
        self._earliest = self._woke if has_slept else before

    def key_is_passed_on(self) -> None:
        """Record that a terminal's keys, or their echo, have been read and passed on.

        If the loop slept before this turn, they arrived when the turn started. Otherwise they may have arrived when the
        previous turn started. The longest possible waiting time is counted.
        """
        self.seconds.note(self._spent() - self._earliest)


class MeasuredSelector(selectors.DefaultSelector):
    """Selector of an event loop that reports when the loop continues."""

    def __init__(self, waits: KeyWaits) -> None:
        super().__init__()
        self._waits = waits

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events like any selector."""
        began = time.monotonic()
        ready = super().select(timeout)
        self._waits.woke(has_slept=time.monotonic() - began > SLEEP_SECONDS)
        return ready


def run_measured(main: Coroutine[Any, Any, None], waits: KeyWaits) -> None:
    """Run a coroutine like ``asyncio.run``, in a loop that reports to ``waits``.

    While it runs, other threads return the interpreter to the loop after SWITCH_SECONDS.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(MeasuredSelector(waits))) as runner:
            runner.run(main)
    finally:
        sys.setswitchinterval(before)


class GarbageCollection:
    """Garbage collection of this process; ``types`` returns True if a rank has a driver."""

    def __init__(self, types: Callable[[], bool], timers: Timers) -> None:
        self._types, self._clock, self._schedule = types, timers.clock, timers.schedule
        self._whole_at = timers.clock()

    def start(self) -> None:
        """Freeze the existing objects, and start the periodic check."""
        young, older, _ = gc.get_threshold()
        gc.set_threshold(young, older, NEVER)
        gc.collect()
        gc.freeze()
        self._schedule(TICK_SECONDS, self._poll)

    def _poll(self) -> None:
        since = self._clock() - self._whole_at
        if since >= WHOLE_AT_LATEST_SECONDS or (since >= WHOLE_SECONDS and not self._types()):
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._whole_at = self._clock()
        elif gc.get_count()[2]:
            gc.collect()
            gc.freeze()
        self._schedule(TICK_SECONDS, self._poll)
