"""Waiting with a deadline, in the same way for all roles, and how a broker closes connections."""

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
