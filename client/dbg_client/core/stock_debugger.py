"""Have the broker dial a stock debugger, ``tcp://127.0.0.1:4444``, and find the session that comes of it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from dbg_dial.deadline import within
from dbg_wire.codec import Output
from dbg_wire.errors import BadTarget, BrokerUnreachable, printable
from dbg_wire.messages import Dial, Dialled, Refusal, RefusalCode
from dbg_wire.ranks import RankInfo
from dbg_wire.records import fitted

from ..errors import CantDial, Declined, TimedOut
from .directory import Directory
from .link import BrokerLink, Down, Up

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


async def dial_stock(link: BrokerLink, directory: Directory, stock: Stock) -> RankInfo:
    """Have the broker dial; return the session as listed. Raise CantDial, Declined, TimedOut or BrokerUnreachable."""
    link.send(fitted(Dial, host=stock.host, port=stock.port))
    try:
        return await within(ANSWER_SECONDS, _answer(link, directory))
    except asyncio.TimeoutError:
        raise TimedOut(f"the broker did not dial {stock.host}:{stock.port} within {ANSWER_SECONDS:g} s") from None


async def _answer(link: BrokerLink, directory: Directory) -> RankInfo:
    key: str | None = None
    while key is None or key not in directory.by_key:
        event = await link.next()
        if isinstance(event, Dialled):
            key = event.key
        elif isinstance(event, Refusal):
            raise CantDial(event.text) if event.code == RefusalCode.CANT_DIAL else Declined(event.text)
        elif isinstance(event, Down):
            raise BrokerUnreachable(link.url, event.reason)
        elif not isinstance(event, (Output, Up)):
            directory.take(event)
    return directory.by_key[key]
