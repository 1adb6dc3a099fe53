"""Wait for ranks: until the broker has listed them, and until the target is stopped."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TypeVar

from dbg_dial.deadline import within
from dbg_wire.codec import Output
from dbg_wire.errors import BrokerUnreachable, printable
from dbg_wire.ranks import RankInfo
from dbg_wire.targets import Target

from ..errors import TimedOut
from .choose import Choice, choose_when_ready
from .directory import Directory
from .link import BrokerLink, Down, Up

T = TypeVar("T")

Tell = Callable[[str], None]
"""Takes a sentence for the user: that something is waited for, that the broker is gone, that it is back."""


async def list_ranks(link: BrokerLink, directory: Directory, seconds: float) -> None:
    """Read until the directory is complete; raise BrokerUnreachable if that takes longer than ``seconds``."""

    def complete() -> bool | None:
        return directory.complete or None

    try:
        await within(seconds, until(link, directory, complete))
    except asyncio.TimeoutError:
        raise BrokerUnreachable(link.url, f"it did not list its ranks within {seconds:g} s") from None


def tell_nobody(sentence: str) -> None:
    """Drop the sentence: a :data:`Tell` for a program without a user who waits."""


async def wait_for_stop(
    link: BrokerLink,
    directory: Directory,
    target: Target,
    seconds: float,
    ended: RankInfo | None = None,
    *,
    tell: Tell = tell_nobody,
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
    tell(f"Waiting for {shown} to stop; Ctrl-C gives up.")
    try:
        return await within(None if math.isinf(seconds) else seconds, until(link, directory, chosen, tell))
    except asyncio.TimeoutError:
        raise TimedOut(f"{shown} did not stop within {seconds:g} s") from None


async def until(link: BrokerLink, directory: Directory, found: Callable[[], T | None], tell: Tell = tell_nobody) -> T:
    """Return what ``found`` finds; it is called now, and after each event of the link.

    The broker may come and go meanwhile; ``tell`` gets a sentence on that. Safe to cancel.
    """
    told = False
    while True:
        result = found()
        if result is not None:
            return result
        event = await link.next()
        if isinstance(event, Up):
            directory.begin()
            if told:
                tell("The broker is back.")
            told = False
        elif isinstance(event, Down):
            if not told:
                tell(f"The broker is gone, reconnecting ({printable(event.reason)}).")
            told = True
        elif not isinstance(event, Output):
            directory.take(event)
