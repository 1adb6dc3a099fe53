"""Share the broker's time among connections, so that nobody's bytes keep somebody else's keys waiting. Pure.

What came on a connection is taken at once while the present turn of the event loop has time left. The rest waits, in
the order in which it came, and has a bounded part of each of the next turns; whoever sends without end takes one slice
after all the others. Where somebody types, keys and their echo wait for no such line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

SLICE_SECONDS = 0.001
"""Longest time for one connection before others have theirs, of the processor time of the broker: what other
processes of its host take from that is no fault of a connection."""

TURN_SECONDS = 0.005
"""Time of one turn of the event loop for what waited, and as much again for what comes. Either may end one piece of a
flood late, 8 ms: all is far below the 50 ms by which nobody may make another's key wait."""


class Worker(Protocol):
    """Have bytes to take."""

    def work(self, is_over: Callable[[], bool]) -> bool:
        """Take what came until the slice is over, or one piece of it; return whether there is more to take now."""


class _Last:
    """Stand in line behind those that wait, to be called when each of them has had a slice."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def work(self, _is_over: Callable[[], bool]) -> bool:
        self._call()
        return False


class Turns:
    """Say whose bytes are taken when; ``spent`` returns the processor time that the broker has used."""

    def __init__(self, spent: Callable[[], float], schedule: Callable[[float, Callable[[], None]], object]) -> None:
        self._clock = spent
        self._schedule = schedule
        self._waiting: deque[Worker] = deque()
        self._spent = 0.0
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, worker: Worker, *, types: bool) -> bool:
        """Have a worker that doesn't wait here take its bytes, now if it ``types`` or there is time.

        Return whether it waits here now.
        """
        if not types and (self._waiting or self._spent >= TURN_SECONDS):
            self._waiting.append(worker)
        else:
            began = self._clock()
            has_more = worker.work(self._slice_until(began + SLICE_SECONDS))
            self._spent += self._clock() - began
            if not has_more:
                self._begin_later()
                return False
            self._waiting.append(worker)
        self._begin_later()
        return True

    def after(self, call: Callable[[], None]) -> None:
        """Call something when all that wait now have had a slice; at once if nobody waits."""
        if self._waiting:
            self._waiting.append(_Last(call))
        else:
            call()

    def _slice_until(self, ends: float) -> Callable[[], bool]:
        return lambda: self._clock() >= ends

    def _begin_later(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(0, self._begin)

    def _begin(self) -> None:
        """Begin a turn with those that wait."""
        self._is_scheduled = False
        self._spent = 0.0
        ends = self._clock() + TURN_SECONDS
        while self._waiting and (now := self._clock()) < ends:
            worker = self._waiting.popleft()
            if worker.work(self._slice_until(min(ends, now + SLICE_SECONDS))):
                self._waiting.append(worker)
        if self._waiting:
            self._begin_later()
