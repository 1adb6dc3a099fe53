"""Have the broker dial a stock debugger, ``tcp://127.0.0.1:4444``, and find the session that comes of it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from dbg_client.core.link import Down, Event
from dbg_client.core.switchboard import Switchboard
from dbg_client.errors import CantDial, Declined, TimedOut
from dbg_wire.errors import BadTarget, BrokerUnreachable, DbgError, printable
from dbg_wire.messages import Dial, Dialled, Refusal, RefusalCode
from dbg_wire.records.ranks import RankInfo
from dbg_wire.records.record import fitted

ANSWER_SECONDS = 15.0
"""Seconds for the broker's answer: it waits for the debugger's accept and for its prompt, five seconds each."""

_SCHEME = "tcp://"
_ADDRESS = re.compile(r"tcp://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})/?")


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
    with switchboard.watched_by(dialling):
        switchboard.send(fitted(Dial, host=stock.host, port=stock.port))
        try:
            return await switchboard.until(dialling.session, ANSWER_SECONDS)
        except asyncio.TimeoutError:
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

    async def take(self, event: Event) -> None:
        """Take what comes from the broker."""
        if isinstance(event, Dialled):
            self._key = event.key
        elif isinstance(event, Refusal):
            is_about_it = event.code == RefusalCode.CANT_DIAL
            self._error = CantDial(event.text) if is_about_it else Declined(event.text)
        elif isinstance(event, Down):
            self._error = BrokerUnreachable(self._switchboard.url, event.reason)
