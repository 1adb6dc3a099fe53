"""How long the event loop lets anything wait: the lengths of its turns, and the waiting times of keys. Pure.

The loop reports when it begins to wait for events and when it goes on. Everything between two waits is one turn, so
that a turn's length includes what nobody else measures: TLS, timers, finished threads. Each length is taken twice, by
the clock and in processor time of the broker. The second doesn't depend on other processes of the host.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds in seconds of a histogram's classes; 0.05 is the promise to keys, and the others show how far it is."""


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


class LoopTimes:
    """What one event loop's turns took; ``clock`` and ``spent`` return seconds of the clock and of the processor."""

    def __init__(self, clock: Callable[[], float], spent: Callable[[], float]) -> None:
        self._clock, self._spent = clock, spent
        self._woke = self._earliest = (clock(), spent())
        self.turns = Histogram()
        self.turns_processor = Histogram()
        self.timers_late = Histogram()
        self.keys = Histogram()
        self.keys_processor = Histogram()

    def waits(self) -> None:
        """Note the end of a turn: the loop looks for events."""
        self.turns.note(self._clock() - self._woke[0])
        self.turns_processor.note(self._spent() - self._woke[1])

    def goes_on(self, *, has_slept: bool) -> None:
        """Note the begin of a turn; if the loop has slept, nothing had come during the turn before."""
        before, self._woke = self._woke, (self._clock(), self._spent())
        self._earliest = self._woke if has_slept else before

    def timer_ran(self, late: float) -> None:
        """Note how many seconds after its time a timer ran."""
        self.timers_late.note(max(0.0, late))

    def key_is_passed_on(self) -> None:
        """Note that a terminal's keys, or the echo of them, have been read and passed on.

        They came while the loop slept or, if it did not sleep, at the earliest when the turn before began: the longest
        time that they may have waited is counted.
        """
        at, spent = self._earliest
        self.keys.note(self._clock() - at)
        self.keys_processor.note(self._spent() - spent)
