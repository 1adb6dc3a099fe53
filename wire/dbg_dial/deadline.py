"""Waiting with a deadline, in the same way for all roles."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float | None, waited_for: Awaitable[T]) -> T:
    """Return what ``waited_for`` returns; without ``seconds`` there is no deadline.

    Raises asyncio.TimeoutError after ``seconds``; ``waited_for`` has been cancelled by then. Before Python 3.12
    ``asyncio.wait_for`` loses a cancellation that comes in the moment of the answer, and then a cancelled task goes on
    for ever.
    """
    task = asyncio.ensure_future(waited_for)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if done:
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        elif not task.cancelled():
            # A cancelled wait takes no result; an error that is never taken is logged by asyncio.
            task.exception()
    raise asyncio.TimeoutError
