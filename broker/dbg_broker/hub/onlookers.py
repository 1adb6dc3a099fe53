"""The terminals at a rank: they are told what others do there by questions, which no screen shows."""

from __future__ import annotations

from functools import partial

from dbg_broker.hub.links import TerminalLink
from dbg_broker.hub.state import Hub
from dbg_broker.net import tcp
from dbg_broker.net.budgets import Budget, Payer
from dbg_broker.terminals.deeds import SECONDS_FOR_ONE, Deed, DeedPaces, Pace
from dbg_wire.errors import printable
from dbg_wire.messages import Notice

DEED_COST = 64
"""Bytes that each terminal that is told counts for the one that does something: 4,000 terminals a second."""


def tell(hub: Hub, link: TerminalLink, deed: Deed, key: str) -> None:
    """Tell all other terminals at a rank what one does there, within the pace of each."""
    numbers = [number for number in hub.seats.viewers(key) if not _is_same(link, hub.terminals[number])]
    if not numbers:
        return
    hub.slow_down(link, DEED_COST * len(numbers))
    for number in numbers:
        _tell(hub, hub.terminals[number], key, link, deed)


def _tell(hub: Hub, onlooker: TerminalLink, key: str, link: TerminalLink, deed: Deed) -> None:
    now, sentence = hub.clock(), f"{_who(link)} {deed.text}"
    if onlooker.deeds is None or onlooker.deeds.key != key:
        onlooker.deeds = DeedPaces(key)
    pace = onlooker.deeds.of(link.number, deed, now)
    # A terminal that is behind gets its screen before news of others.
    if onlooker.connection.is_ready and pace.may_tell(now):
        onlooker.connection.send_message(Notice(text=sentence, ends_stop=deed.ends_stop))
        return
    hub.meters.budgets.hit(Payer.DRIVER, Budget.DEEDS)
    wait = pace.count(sentence, now)
    if wait is not None:
        hub.schedule(wait, partial(_tell_more, hub, onlooker, onlooker.deeds, pace))


def _tell_more(hub: Hub, onlooker: TerminalLink, deeds: DeedPaces, pace: Pace) -> None:
    viewer = hub.seats.viewer(onlooker.number)
    if viewer is None or onlooker.deeds is not deeds or viewer.key != deeds.key:
        # It has left the rank, and what was counted there is of no use elsewhere.
        return
    if not onlooker.connection.is_ready:
        hub.schedule(SECONDS_FOR_ONE, partial(_tell_more, hub, onlooker, deeds, pace))
    elif (sentence := pace.more(hub.clock())) is not None:
        onlooker.connection.send_message(Notice(text=sentence))


def _who(link: TerminalLink) -> str:
    """Return who does something: what the terminal calls itself is in quotes, as in the audit log."""
    name = f'"{printable(link.name or "?").replace(chr(34), chr(39))}"'
    return f"{name} ({printable(link.bearer.name)})" if link.bearer.name else name


def _is_same(link: TerminalLink, other: TerminalLink) -> bool:
    """Tell whether two connections are of one program, which has several of one name: it knows what it does."""
    if link.number == other.number:
        return True
    if link.name != other.name or not (link.name or "").endswith(")"):
        return False
    return link.bearer == other.bearer and tcp.host_of(link.connection.peer) == tcp.host_of(other.connection.peer)
