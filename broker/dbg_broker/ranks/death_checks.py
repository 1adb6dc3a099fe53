"""When to look again whether the process of a lost rank is gone. Pure: time is an argument."""

from __future__ import annotations

import heapq

DEATH_CHECKS = (0.2, 1.0, 5.0)
"""Seconds after which a lost rank of this host is looked for again: its socket closes before it is a dead process."""

DEATH_CHECK_LATER = 30.0
"""Seconds between later checks: the rank may have lost only its connection, and end at any time."""


class DeathChecks:
    """The keys of lost ranks, by when each is to be looked for next."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str, int]] = []

    def put(self, key: str, attempt: int, now: float) -> None:
        """Have a rank looked for again after the attempt of this number, counted from zero."""
        delay = DEATH_CHECKS[attempt] if attempt < len(DEATH_CHECKS) else DEATH_CHECK_LATER
        heapq.heappush(self._heap, (now + delay, key, attempt + 1))

    def due(self, now: float) -> list[tuple[str, int]]:
        """Take out the ranks that are to be looked for by now, each with the number of its attempt."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            _, key, attempt = heapq.heappop(self._heap)
            found.append((key, attempt))
        return found
