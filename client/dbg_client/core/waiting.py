"""Wait for ranks: until the broker has listed them, until the target is stopped, until a stock debugger is dialled."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from dbg_client.core.choose import Choice, choose_when_ready, is_ready
from dbg_client.core.directory import Directory
from dbg_client.core.errors import CantDial, Declined, LostRank, RankEnded, RankVanished, TimedOut
from dbg_client.core.link import Down, Event
from dbg_client.core.patience import WaitingLine, count_states
from dbg_client.core.switchboard import Switchboard, Tell, tell_nobody
from dbg_wire.errors import BadTarget, BrokerUnreachable, DbgError, NoSuchRank, printable
from dbg_wire.messages import Dial, Dialled, Refusal, RefusalCode
from dbg_wire.records.ranks import DIED, RankInfo, RankState, describe_exit
from dbg_wire.records.record import fitted
from dbg_wire.targets.selection import Target, select, unique_target

GUARD_SECONDS = 1.0
"""Seconds within which the guard of a rank has told the signal that killed it, as a rule: it has to dial the broker."""

ANSWER_SECONDS = 15.0
"""Seconds for the broker's answer: it waits for the debugger's accept and for its prompt, five seconds each."""

WAITING = "Waiting for {target} to stop; Ctrl-C gives up."

_SCHEME = "tcp://"

_ADDRESS = re.compile(r"tcp://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})/?")


async def open_and_list(switchboard: Switchboard, line: WaitingLine, tell: Tell = tell_nobody) -> None:
    """Dial the broker and read its list, saying what is waited for. Raises what the two raise.

    ``tell`` gets a sentence on each broker whose ranks are not in the list.
    """
    async with line.says(lambda: "waiting for the broker to answer"):
        await switchboard.dial()
    async with line.says(lambda: "waiting for the broker's list of ranks"):
        await switchboard.listed()
    for url in switchboard.unreachable:
        tell(f"The broker at {printable(url)} does not answer; its ranks are not listed.")


async def wait_for_stop(
    switchboard: Switchboard,
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

    directory = switchboard.directory

    def chosen() -> Choice | None:
        return choose_when_ready(target, directory.ranks, ended) if directory.complete else None

    choice = chosen()
    if choice is not None:
        return choice
    shown = printable(target.text)
    tell(WAITING.format(target=shown))
    limit = None if math.isinf(seconds) else seconds
    try:
        async with (line or WaitingLine()).says(lambda: f"waiting for {shown}: {_how_it_is(target, directory)}"):
            return await switchboard.until(chosen, limit, tell)
    except TimeoutError:
        raise TimedOut(f"{shown} did not stop within {seconds:g} s") from None


async def until_stopped(switchboard: Switchboard, rank: RankInfo) -> RankInfo:
    """Return a rank that was broken into as it is listed once it has stopped, however long its C code takes.

    Raises RankVanished, RankEnded or LostRank if it does not.
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


def _how_it_is(target: Target, directory: Directory) -> str:
    """Return what the ranks of a target do, of whatever job, in a few words."""
    if not directory.complete:
        return "the broker is away"
    try:
        found = select(target, directory.ranks, any_job=True).ranks
    except NoSuchRank:
        return "no rank fits it yet"
    return count_states([rank for rank in found if rank.state is not RankState.EXITED]) or "all have exited"


async def with_signal(switchboard: Switchboard, ended: RankInfo) -> RankInfo:
    """Return a rank that died as it is listed once its signal is known, or as it is after GUARD_SECONDS."""

    def known() -> RankInfo | None:
        now = switchboard.directory.by_key.get(ended.key)
        return now if now is not None and now.state is RankState.EXITED and now.exit is not None else None

    if describe_exit(ended) != DIED:
        return ended
    try:
        return await switchboard.until(known, GUARD_SECONDS)
    except TimeoutError:
        return ended


@dataclass(frozen=True, slots=True)
class Stock:
    """Where a stock debugger listens, as the broker's host sees it."""

    host: str
    port: int


def parse_stock(target: str | None) -> Stock | None:
    """Return the address that a target is, or None if it names ranks. Raise BadTarget if it can't be read."""
    if target is None or not target.startswith(_SCHEME):
        return None
    found = _ADDRESS.fullmatch(target)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise BadTarget(f"'{printable(target)}' is no address of a debugger", "write tcp://127.0.0.1:4444")
    return Stock(found["host"], int(found["port"]))


async def dial_stock(switchboard: Switchboard, stock: Stock) -> RankInfo:
    """Have the broker dial; return the session as listed. Raise CantDial, Declined, TimedOut or BrokerUnreachable."""
    dialling = _Dialling(switchboard)
    with switchboard.watched_by(dialling.receive):
        switchboard.send(fitted(Dial, host=stock.host, port=stock.port))
        try:
            return await switchboard.until(dialling.session, ANSWER_SECONDS)
        except TimeoutError:
            raise TimedOut(f"the broker did not dial {stock.host}:{stock.port} within {ANSWER_SECONDS:g} s") from None


class _Dialling:
    """What the broker says to a request to dial."""

    def __init__(self, switchboard: Switchboard) -> None:
        self._switchboard = switchboard
        self._key: str | None = None
        self._error: DbgError | None = None

    def session(self) -> RankInfo | None:
        """Return the session once it is listed. Raise why there is none."""
        if self._error is not None:
            raise self._error
        return self._switchboard.directory.by_key.get(self._key or "")

    async def receive(self, event: Event) -> None:
        """Take what comes from the broker."""
        if isinstance(event, Dialled):
            self._key = event.key
        elif isinstance(event, Refusal):
            is_about_it = event.code == RefusalCode.CANT_DIAL
            self._error = CantDial(event.text) if is_about_it else Declined(event.text)
        elif isinstance(event, Down):
            self._error = BrokerUnreachable(self._switchboard.url, event.reason)
