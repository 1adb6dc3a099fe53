"""Wait for ranks: until the broker has listed them, and until the target is stopped."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TypeVar

from dbg_dial.deadline import within
from dbg_wire.codec import Output
from dbg_wire.errors import BrokerUnreachable, NoSuchRank, printable
from dbg_wire.ranks import DIED, RankInfo, RankState, describe_exit
from dbg_wire.targets import Target, select

from ..errors import SlowBroker, TimedOut
from .choose import Choice, choose_when_ready
from .directory import Directory
from .link import BrokerLink, Down, Up
from .waiting_line import WaitingLine, count_states

T = TypeVar("T")

GUARD_SECONDS = 1.0
"""Seconds within which the guard of a rank has told the signal that killed it, as a rule: it has to dial the broker."""

Tell = Callable[[str], None]
"""Takes a sentence for the user: that something is waited for, that the broker is gone, that it is back."""


async def open_and_list(link: BrokerLink, directory: Directory, seconds: float, line: WaitingLine) -> None:
    """Dial the broker and read its list, with ``seconds`` for either. Raises what the two raise."""
    async with line.says(lambda: "waiting for the broker to answer"):
        await link.open()
    async with line.says(lambda: "waiting for the broker's list of ranks"):
        await list_ranks(link, directory, seconds)


async def list_ranks(link: BrokerLink, directory: Directory, seconds: float) -> None:
    """Read until the directory is complete; raise BrokerUnreachable if that takes longer than ``seconds``."""

    def complete() -> bool | None:
        return directory.complete or None

    try:
        await within(seconds, until(link, directory, complete))
    except asyncio.TimeoutError:
        error = SlowBroker if link.is_up else BrokerUnreachable
        raise error(link.url, f"it did not list its ranks within {seconds:g} s") from None


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
    line: WaitingLine | None = None,
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
    limit = None if math.isinf(seconds) else seconds
    try:
        async with (line or WaitingLine()).says(lambda: f"waiting for {shown}: {_how_it_is(target, directory)}"):
            return await within(limit, until(link, directory, chosen, tell))
    except asyncio.TimeoutError:
        raise TimedOut(f"{shown} did not stop within {seconds:g} s") from None


def _how_it_is(target: Target, directory: Directory) -> str:
    """Return what the ranks of a target do, of whatever job, in a few words."""
    if not directory.complete:
        return "the broker is away"
    try:
        found = select(target, directory.ranks, any_job=True).ranks
    except NoSuchRank:
        return "no rank fits it yet"
    return count_states([rank for rank in found if rank.state is not RankState.EXITED]) or "all have exited"


async def with_signal(link: BrokerLink, directory: Directory, ended: RankInfo) -> RankInfo:
    """Return a rank that died as it is listed once its signal is known, or as it is after GUARD_SECONDS."""

    def known() -> RankInfo | None:
        now = directory.by_key.get(ended.key)
        return now if now is not None and now.state is RankState.EXITED and now.exit is not None else None

    if describe_exit(ended) != DIED:
        return ended
    try:
        return await within(GUARD_SECONDS, until(link, directory, known))
    except asyncio.TimeoutError:
        return ended


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
