"""Turns for the bytes of stock debuggers: a slice of each in turn, all together within one budget. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from dbg_broker.net.rate import RateLimit
from dbg_wire import limits

SLICE_BYTES = 4 * limits.KIB
"""Bytes looked at in one turn: they take some milliseconds, for which a key of another session may have to wait."""

MICROSECONDS_PER_SECOND = 200_000
"""Processor time for all callers together, a fifth of a core: no caller has shown a token."""

BYTES_PER_SECOND = 4 * limits.MIB
"""Bytes of all callers together, a thousand screens."""


class CallerTurns:
    """Turns of callers with bytes: the caller that has used least is first, so that a flood delays no other caller.

    ``take`` looks at a slice of one caller's bytes, and returns its size and whether there is more. ``spent`` returns
    the seconds of processor time used, ``clock`` the monotonic time. A turn is scheduled, never taken at once.
    """

    def __init__(
        self,
        take: Callable[[int], tuple[int, bool]],
        *,
        spent: Callable[[], float],
        clock: Callable[[], float],
        schedule: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._take = take
        self._spent = spent
        self._clock = clock
        self._schedule = schedule
        self._work = RateLimit(clock(), MICROSECONDS_PER_SECOND)
        self._bytes = RateLimit(clock(), BYTES_PER_SECOND)
        self._used: dict[int, float] = {}
        # (seconds used, whether it goes on, number): at equal use a caller that comes precedes one that goes on.
        self._waiting: list[tuple[float, bool, int]] = []
        # The least seconds used among waiting callers; a silent caller counts with these, so that it saves nothing up.
        self._level = 0.0
        self._is_scheduled = False

    def add(self, number: int) -> None:
        """Have a caller wait for a turn; it must not wait for one already."""
        heapq.heappush(self._waiting, (max(self._level, self._used.get(number, 0.0)), False, number))
        self._continue(0.0)

    def forget(self, number: int) -> None:
        """Forget a caller that has gone."""
        self._used.pop(number, None)
        self._waiting = [entry for entry in self._waiting if entry[2] != number]
        heapq.heapify(self._waiting)

    def _continue(self, seconds: float) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(seconds, self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        if not self._waiting:
            return
        self._level, _, number = heapq.heappop(self._waiting)
        began = self._spent()
        size, has_more = self._take(number)
        used = self._spent() - began
        self._used[number] = self._level + used
        if has_more:
            heapq.heappush(self._waiting, (self._used[number], True, number))
        now = self._clock()
        wait = max(self._work.spend(int(used * 1e6), now), self._bytes.spend(size, now))
        self._continue(wait)
