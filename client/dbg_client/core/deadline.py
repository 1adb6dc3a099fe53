"""Waiting with a deadline for a thread that may hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from dbg_dial.apart import begin
from dbg_dial.deadline import within
from dbg_dial.find import Opening
from dbg_wire.errors import SilentFile

T = TypeVar("T")


async def in_thread(call: Callable[[], T], seconds: float | None) -> T:
    """Return what ``call`` returns in a thread of its own; raise asyncio.TimeoutError after ``seconds``, if given.

    For a name server or a file system that does not answer. The program ends without the thread; it waits for the
    threads of asyncio's own executor.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def take(value: object, error: BaseException | None) -> None:
        if not answer.done():
            answer.set_result((value, error))

    def tell(value: object, error: BaseException | None) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            loop.call_soon_threadsafe(take, value, error)

    begin(call, tell)
    value, error = await within(seconds, answer)
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return] # what call returned


async def read_in_thread(read: Callable[[Opening], T], seconds: float) -> T:
    """Return what ``read`` does in a thread of its own, to which it names each path before it touches it.

    Raise SilentFile after ``seconds``, as :func:`dbg_dial.apart.read_apart` does.
    """
    touched: list[str] = []
    reading = asyncio.ensure_future(in_thread(lambda: read(touched.append), None))
    try:
        while True:
            with suppress(asyncio.TimeoutError):
                return await within(seconds, asyncio.shield(reading))
            if touched:
                raise SilentFile(touched[-1])
    finally:
        reading.cancel()
