"""Waiting with a deadline for a thread that may hang."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from dbg_dial.deadline import within

T = TypeVar("T")


async def in_thread(call: Callable[[], T], seconds: float) -> T:
    """Return what ``call`` returns in a thread of its own; raise asyncio.TimeoutError after ``seconds``.

    For a name server or a file system that does not answer. The thread is a daemon, so the program ends without it; a
    program waits for the threads of asyncio's own executor.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def tell(value: object, error: BaseException | None) -> None:
        if not answer.done():
            answer.set_result((value, error))

    def run() -> None:
        value: object = None
        raised: BaseException | None = None
        try:
            value = call()
        except BaseException as error:
            raised = error
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            loop.call_soon_threadsafe(tell, value, raised)

    threading.Thread(target=run, name="dbg-attach-lookup", daemon=True).start()
    value, error = await within(seconds, answer)
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return] # what call returned
