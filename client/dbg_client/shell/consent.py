"""Ask the user for a yes, or wait until the user gives up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from dbg_client.shell.streams import tell
from dbg_wire.errors import NeedsAnswer

_SIGNALS = (signal.SIGINT, signal.SIGHUP)
"""What Ctrl-C sends, and a terminal that closes."""


async def agrees(question: str, without_terminal: str) -> bool:
    """Ask, and return whether the answer is yes; if not, say that nothing was done. Raises NeedsAnswer."""
    if not sys.stdin.isatty():
        raise NeedsAnswer(without_terminal, "add -y to do it unasked")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    try:
        line = await _read_line()
    except asyncio.CancelledError:  # Ctrl-C
        tell("\nNothing was done.")
        raise
    if not line.endswith("\n"):
        tell("")  # Ctrl-D leaves the cursor behind the question
    if line.strip().lower() in ("y", "yes"):
        return True
    tell("Nothing was done.")
    return False


async def _read_line() -> str:
    # Not in a thread: Ctrl-C could not end a read there.
    loop = asyncio.get_running_loop()
    read: asyncio.Future[bytes] = loop.create_future()
    stdin = sys.stdin.fileno()

    def take() -> None:
        if not read.done():
            read.set_result(os.read(stdin, 4096))

    loop.add_reader(stdin, take)
    try:
        return (await read).decode("utf-8", "replace")
    finally:
        loop.remove_reader(stdin)


T = TypeVar("T")


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
