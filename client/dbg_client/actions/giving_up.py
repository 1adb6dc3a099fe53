"""Wait for something until the user gives up, so that what was asked for can be taken back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGHUP)
"""What Ctrl-C sends, and a terminal that closes."""


async def unless_given_up(work: Coroutine[Any, Any, T]) -> T | None:
    """Return the work's result; None if the user gives up, which cancels the work. Runs in the main thread."""
    loop = asyncio.get_running_loop()
    former = [(number, signal.getsignal(number)) for number in _SIGNALS]
    task = loop.create_task(work)
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    try:
        (done, _) = await asyncio.wait({task})
    finally:
        task.cancel()
        for number, handler in former:
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
    (ended,) = done
    return None if ended.cancelled() else ended.result()
