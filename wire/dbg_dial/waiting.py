"""Waiting, in the same way for all roles: with a deadline, and between attempts to dial a broker that has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float | None, waited_for: Awaitable[T]) -> T:
    """Return what ``waited_for`` returns; without ``seconds`` there is no deadline.

    Raises TimeoutError after ``seconds``; ``waited_for`` has been cancelled by then. Before Python 3.12
    ``asyncio.wait_for`` loses a cancellation that comes in the moment of the answer, and then a cancelled task goes on
    for ever.
    """
    async with asyncio.timeout(seconds):
        return await waited_for


SHUTDOWN = 1001
"""The code with which a broker closes connections when it ends."""

BROKE = 1006
"""The code of a connection that ended without a close: the broker was killed, or did not wait for this peer."""

HANDOVER_SECONDS = 5.0
"""Seconds after that for which the next broker is expected: service managers restart at once."""

PAUSE_SECONDS = 0.25
"""Seconds between two attempts meanwhile, at most. A terminal is handed over within 2.5 s so."""


class Handover:
    """Whether the next broker is expected now; times are those of one clock."""

    def __init__(self) -> None:
        self._until = 0.0

    def ended(self, code: int | None, now: float) -> None:
        """Note that a connection ended with this code, None if it had none."""
        if code in (SHUTDOWN, BROKE, None):
            self._until = now + HANDOVER_SECONDS

    def bound(self, pause: float, now: float) -> float:
        """Return the longest pause before the next attempt, which is ``pause`` at other times."""
        return min(pause, PAUSE_SECONDS) if now < self._until else pause
