"""Shares of the broker's time for connections, so that bytes of one connection don't delay keys of another. Pure.

What came on a connection is taken at once while the present turn of the event loop has time left. Otherwise the
connection waits in line, and the line has a bounded part of each of the next turns. A connection that sends without
end goes to the end of the line after each slice. Keys of a terminal and their echo don't wait in line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

SLICE_SECONDS = 0.001
"""Longest time for one connection before others have theirs. It is processor time of the broker: time that other
processes of the host take doesn't count against a connection."""

TURN_SECONDS = 0.005
"""Time of one turn of the event loop for bytes that waited, and as much again for bytes that come. Either may end one
piece of a flood late, 8 ms. The sum is far below 50 ms, the longest time that a flood may delay a key."""


class Worker(Protocol):
    """Connection with bytes to take."""

    def work(self, is_over: Callable[[], bool]) -> bool:
        """Take what came until the slice is over, at least one piece; return whether there is more to take now."""


class _Last:
    """Call that waits in line until each connection before it has had a slice."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def work(self, _is_over: Callable[[], bool]) -> bool:
        self._call()
        return False


class Turns:
    """The order in which connections take their bytes; ``spent`` returns the broker's processor time."""

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
        """Call something when all that wait now have had a slice; at once if none waits."""
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
