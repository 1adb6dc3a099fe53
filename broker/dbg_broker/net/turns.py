"""Work in slices, so that what one message makes for thousands of ranks does not delay keys. Pure."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator

from dbg_broker.timers import Timers

logger = logging.getLogger("dbg_broker")

SLICE_SECONDS = 0.0005
"""Longest time for one piece of work before the next one has its slice, of the broker's processor time."""

TURN_SECONDS = 0.002
"""Time of one turn of the event loop for all such work."""


class Turns:
    """Queue of work, first in, first out: each piece has a slice, and goes to the end of the queue."""

    def __init__(self, timers: Timers) -> None:
        self._clock, self._schedule = timers.spent, timers.schedule
        self._waiting: deque[Iterator[object]] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, steps: Iterator[object]) -> None:
        """Begin work whose steps are the iterator's; each step takes well below a millisecond.

        It begins at once if no other work waits.
        """
        if self._waiting or self._has_more(steps):
            self.put(steps)

    def put(self, steps: Iterator[object]) -> None:
        """Put work behind all that waits."""
        self._waiting.append(steps)
        self._go_on_later()

    def _has_more(self, steps: Iterator[object]) -> bool:
        """Do work for a slice, and return whether there is more; an error ends this work and nothing else."""
        ends = self._clock() + SLICE_SECONDS
        try:
            for _ in steps:
                if self._clock() >= ends:
                    return True
        except Exception:
            logger.exception("an error of the broker in work that was done in slices")
        return False

    def _go_on_later(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(0, self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        ends = self._clock() + TURN_SECONDS
        while self._waiting and self._clock() < ends:
            steps = self._waiting.popleft()
            if self._has_more(steps):
                self._waiting.append(steps)
        if self._waiting:
            self._go_on_later()
