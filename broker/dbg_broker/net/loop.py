"""The event loop: for how long keys wait in it, and when Python's garbage is collected.

A collection of all objects goes through everything that the broker knows: with ten thousand ranks it takes a fifth of a
second, in which no key is passed on, and Python begins one when it sees fit. Here what has survived a collection is set
aside, so that the next one goes through newer objects alone. All objects are gone through when nobody types."""

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
"""Upper bounds in seconds of a histogram's classes; 0.05 is the promise to keys, and the others show how far it is."""

SWITCH_SECONDS = 0.0005
"""Seconds after which a thread that computes lets the loop go on. The loop gives the interpreter away at each call of
the kernel, and there are several on the way of a key: with Python's own 5 ms a busy thread delays a key
by 50 ms and more."""

SLEEP_SECONDS = 0.0001
"""Seconds from which on the loop has waited for events, and has not found some that had come before."""

TICK_SECONDS = 0.25
"""Seconds between two looks: in a flood, objects of this time are gone through in five milliseconds."""

WHOLE_SECONDS = 600.0
"""Seconds after which all objects are gone through, as soon as nobody types."""

WHOLE_AT_LATEST_SECONDS = 6 * 3600.0
"""Seconds after which they are gone through in any case: what is left over until then is some KiB a connection."""

NEVER = 1_000_000
"""Collections of young objects after which Python itself would begin one of all."""


class Histogram:
    """Seconds, counted in classes."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        """How many fell into each class; the last one is above all bounds."""
        self.total = 0.0

    def note(self, seconds: float) -> None:
        """Count one length."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class KeyWaits:
    """Processor time for which keys waited in an event loop; ``spent`` returns the seconds of the loop's thread."""

    def __init__(self, spent: Callable[[], float] = time.thread_time) -> None:
        self._spent = spent
        self._woke = self._earliest = spent()
        self.seconds = Histogram()

    def woke(self, *, has_slept: bool) -> None:
        """Note the begin of a turn of the loop; if it has slept, nothing had come during the turn before."""
        before, self._woke = self._woke, self._spent()
        self._earliest = self._woke if has_slept else before

    def key_is_passed_on(self) -> None:
        """Note that a terminal's keys, or the echo of them, have been read and passed on.

        They came while the loop slept or, if it did not sleep, at the earliest when the turn before began. The longest
        time that they may have waited is counted.
        """
        self.seconds.note(self._spent() - self._earliest)


class MeasuredSelector(selectors.DefaultSelector):
    """The selector of an event loop, which reports when the loop continues."""

    def __init__(self, waits: KeyWaits) -> None:
        super().__init__()
        self._waits = waits

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events as any selector does."""
        began = time.monotonic()
        ready = super().select(timeout)
        self._waits.woke(has_slept=time.monotonic() - began > SLEEP_SECONDS)
        return ready


def run_measured(main: Coroutine[Any, Any, None], waits: KeyWaits) -> None:
    """Run a coroutine as ``asyncio.run`` does, in a loop that reports to ``waits``.

    While it runs, other threads give the interpreter back to the loop after SWITCH_SECONDS.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(MeasuredSelector(waits))) as runner:
            runner.run(main)
    finally:
        sys.setswitchinterval(before)


class GarbageCollection:
    """The collection of garbage of this process; ``types`` tells whether a terminal is at a rank to type there."""

    def __init__(self, types: Callable[[], bool], timers: Timers) -> None:
        self._types, self._clock, self._schedule = types, timers.clock, timers.schedule
        self._whole_at = timers.clock()

    def begin(self) -> None:
        """Set aside what there is, and look again and again."""
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
