"""Waits until a target is stopped or the end of a rank is known; breaks into one rank."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from dbg_client.core.asking import Asker
from dbg_client.core.choose import Choice, choose_when_ready, is_ready
from dbg_client.core.directory import Directory
from dbg_client.core.errors import LostRank, RankEnded, RankVanished, TimedOut
from dbg_client.core.switchboard import Notify, Switchboard, ignore
from dbg_client.core.wait_progress import WaitingLine
from dbg_command.targets import Target, select, unique_target
from dbg_wire.errors import NoSuchRank, printable
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records.ranks import RankInfo, RankState

GUARD_SECONDS = 1.0
"""Time that a rank's guard process usually needs to report to the broker which signal killed the rank, in seconds."""

WAITING = "Waiting for {target} to stop; Ctrl-C cancels."


async def wait_for_stop(
    switchboard: Switchboard,
    target: Target,
    seconds: float,
    ended: RankInfo | None = None,
    *,
    notify: Notify = ignore,
    line: WaitingLine | None = None,
) -> Choice:
    """Wait until the terminal can attach to a rank of ``target``, and return it; see :func:`.choose.choose_when_ready`.

    The broker may disconnect and reconnect during the wait. Raises TimedOut after ``seconds``, and AmbiguousTarget.
    """
    directory = switchboard.directory

    def chosen() -> Choice | None:
        return choose_when_ready(target, directory.ranks, ended) if directory.complete else None

    choice = chosen()
    if choice is not None:
        return choice
    shown = printable(target.text)
    notify(WAITING.format(target=shown))
    limit = None if math.isinf(seconds) else seconds
    try:
        async with (line or WaitingLine()).says(lambda: f"waiting for {shown}: {_what_fits(target, directory)}"):
            return await switchboard.until(chosen, limit, notify)
    except TimeoutError:
        raise TimedOut(f"{shown} did not stop within {seconds:g} s") from None


async def until_stopped(switchboard: Switchboard, rank: RankInfo) -> RankInfo:
    """Wait until an interrupted rank has stopped, without a time limit, and return its listed state.

    Raises RankVanished, RankEnded or LostRank if it does not stop.
    """

    def stopped() -> RankInfo | None:
        now = switchboard.directory.by_key.get(rank.key)
        if not switchboard.is_current:
            return None
        if now is None:
            raise RankVanished(rank.address)
        if now.state is RankState.EXITED:
            raise RankEnded(now)
        if now.state is RankState.LOST:
            raise LostRank(now.address, unique_target(now, switchboard.directory.ranks))
        return now if is_ready(now) else None

    return await switchboard.until(stopped)


def _what_fits(target: Target, directory: Directory) -> str:
    """Return a short text on the number of ranks that a target fits, in all jobs."""
    if not directory.complete:
        return "the broker is disconnected"
    try:
        found = select(target, directory.ranks, any_job=True).ranks
    except NoSuchRank:
        return "no rank matches yet"
    living = sum(rank.state is not RankState.EXITED for rank in found)
    return f"{living} of {len(found)} matching ranks are alive"


async def with_signal(switchboard: Switchboard, ended: RankInfo) -> RankInfo:
    """Return the listed state of a dead rank when its fatal signal is known, after GUARD_SECONDS at the latest."""

    def known() -> RankInfo | None:
        now = switchboard.directory.by_key.get(ended.key)
        return now if now is not None and now.state is RankState.EXITED and now.exit is not None else None

    if not ended.end.is_unexplained:
        return ended
    try:
        return await switchboard.until(known, GUARD_SECONDS)
    except TimeoutError:
        return ended


WITHDRAWAL_SECONDS = 2.0
"""Timeout of the answer to a withdrawal, in seconds. It is short because the user has cancelled."""

Report = Callable[[RankAnswer], None]


def report_nothing(_: RankAnswer) -> None:
    """Discard an answer."""


async def break_in(
    switchboard: Switchboard,
    asker: Asker,
    rank: RankInfo,
    *,
    waits: Report = report_nothing,
    withdrawn: Report = report_nothing,
) -> RankInfo | RankAnswer:
    """Interrupt a rank. Return its listed state once it has stopped, or its answer if it does not stop.

    ``waits`` gets the answer of a rank that will stop when its C code returns. Cancelling this call withdraws the
    request; ``withdrawn`` gets the answer to the withdrawal. Raises DbgError.
    """
    try:
        (answer,) = await asker.ask(Action.INTERRUPT, [rank])
        if answer.kind not in (Kind.VALUE, Kind.RUNNING):
            return answer
        if answer.kind is Kind.RUNNING:
            waits(answer)
        return await until_stopped(switchboard, rank)
    except asyncio.CancelledError:
        (answer,) = await asker.ask(Action.INTERRUPT, [rank], withdrawn=True, seconds=WITHDRAWAL_SECONDS)
        withdrawn(answer)
        raise
