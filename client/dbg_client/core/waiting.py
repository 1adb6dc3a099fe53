"""Wait for ranks: until the broker has listed them, and until the target is stopped."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TypeVar

from dbg_wire.codec import Output
from dbg_wire.errors import BrokerUnreachable, printable
from dbg_wire.ranks import RankInfo
from dbg_wire.targets import Target

from ..errors import TimedOut
from ..say import talk
from .choose import Choice, choose_when_ready
from .directory import Directory
from .redial import Down, Line, Up

T = TypeVar("T")


async def list_ranks(line: Line, directory: Directory, seconds: float) -> None:
    """Read until the directory is complete; raise BrokerUnreachable if that takes longer than ``seconds``."""

    def complete() -> bool | None:
        return directory.complete or None

    try:
        await asyncio.wait_for(until(line, directory, complete, quiet=True), seconds)
    except asyncio.TimeoutError:
        raise BrokerUnreachable(line.url, f"it did not list its ranks within {seconds:g} s") from None


async def wait_for_stop(
    line: Line, directory: Directory, target: Target, seconds: float, ended: RankInfo | None = None
) -> Choice:
    """Return the rank of ``target`` to attach to once there is one; see :func:`.choose.choose_when_ready`.

    The broker may come and go meanwhile. Raises TimedOut after ``seconds``, and AmbiguousTarget.
    """

    def chosen() -> Choice | None:
        return choose_when_ready(target, directory.ranks, ended) if directory.complete else None

    choice = chosen()
    if choice is not None:
        return choice
    shown = printable(target.text)
    talk(f"Waiting for {shown} to stop; Ctrl-C gives up.")
    try:
        return await asyncio.wait_for(until(line, directory, chosen), None if math.isinf(seconds) else seconds)
    except asyncio.TimeoutError:
        raise TimedOut(f"{shown} did not stop within {seconds:g} s") from None


async def until(line: Line, directory: Directory, found: Callable[[], T | None], *, quiet: bool = False) -> T:
    """Return what ``found`` finds; it is asked now, and whenever the broker has said something.

    The broker may come and go meanwhile, which is said unless ``quiet``. Safe to cancel.
    """
    told = quiet
    while True:
        result = found()
        if result is not None:
            return result
        event = await line.next()
        if isinstance(event, Up):
            directory.begin()
            if told and not quiet:
                talk("The broker is back.")
            told = quiet
        elif isinstance(event, Down):
            if not told:
                talk(f"The broker is gone, reconnecting ({printable(event.reason)}).")
            told = True
        elif not isinstance(event, Output):
            directory.take(event)
