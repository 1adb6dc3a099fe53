"""What terminals say, and what the broker does about it: one function for each message.

With a watcher's token a terminal can look and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dbg_broker.audit.entries import What
from dbg_broker.home.bearer import Role
from dbg_broker.hub import audited, departures, from_asking_terminals, from_line_terminals, hang_verdicts
from dbg_broker.hub.from_asking_terminals import with_status
from dbg_broker.hub.from_line_terminals import FOR_DRIVERS
from dbg_broker.hub.links import TerminalLink
from dbg_broker.hub.state import Hub
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.terminals.glances import FOR_WATCHERS
from dbg_broker.terminals.seats import InputVerdict
from dbg_wire import limits
from dbg_wire.codec import Input, decode_data
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    Attach,
    Complete,
    Detach,
    Dial,
    Discarded,
    Greet,
    Hang,
    Interrupt,
    Message,
    Mode,
    Question,
    RefusalCode,
    Repaint,
    Replay,
    Reply,
    Resize,
    Sender,
    Subscribe,
    Take,
)
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import fitted

CONTROL_RESERVE = 128 * limits.KIB
"""Bytes of a rank's queue that input leaves free, so that control messages have room even if the rank doesn't read."""

LISTED_COST = 8
"""Bytes that each rank of a list counts for the terminal that asks for the list: 32,000 ranks a second."""

_ONLY_DRIVERS = "this token may only watch; `dbg-broker token --role driver` prints one that may type"


def take(hub: Hub, link: TerminalLink, message: Message) -> None:
    """Do what a terminal's message asks. Raise PeerError if it breaks the protocol."""
    if isinstance(message, Greet):
        _greet(hub, link, message)
    elif link.name is None:
        raise PeerError("the first message of a terminal is not `greet`")
    elif link.role is Role.WATCHER and not _may_watcher(message):
        request = message.request if isinstance(message, Question) else None
        hub.refuse(link.connection, RefusalCode.ROLE, _ONLY_DRIVERS, request)
    else:
        _METHODS[type(message)](hub, link, message)


def take_input(hub: Hub, link: TerminalLink, data: bytes) -> None:
    """Pass keys on to the rank, if this terminal types there. Raise PeerError if they are none."""
    if link.name is None:
        raise PeerError("terminal bytes before `greet`")
    keys = decode_data(data, Sender.CLIENT)
    if not isinstance(keys, Input):
        raise PeerError("a binary frame that no client sends")
    if link.role is Role.WATCHER:
        hub.refuse(link.connection, RefusalCode.ROLE, _ONLY_DRIVERS)
        return
    verdict = hub.seats.judge_input(link.number, keys.generation)
    if verdict is InputVerdict.NOT_ATTACHED:
        _refuse_not_attached(hub, link)
    elif verdict is InputVerdict.NOT_DRIVING:
        text = "another terminal types at this rank; take the keyboard first"
        hub.refuse(link.connection, RefusalCode.NOT_DRIVING, text)
    elif verdict is InputVerdict.STALE:
        _discard(hub, link, keys, "it was typed for an earlier turn at the keyboard")
    else:
        _relay(hub, link, keys, data)


def _may_watcher(message: Message) -> bool:
    if isinstance(message, Attach):
        return message.mode is Mode.WATCH
    if isinstance(message, Question):
        return message.action in FOR_WATCHERS
    return not isinstance(message, (Take, Dial, *FOR_DRIVERS))


def _relay(hub: Hub, link: TerminalLink, keys: Input, data: bytes) -> None:
    viewer = hub.seats.viewer(link.number)
    rank_link = hub.ranks.get(viewer.key) if viewer else None
    if rank_link is None:
        # A lost rank may come back: the terminal keeps keys that aren't settled, and its new seat tells it what to do.
        return
    if hub.audits_input and viewer is not None:
        audited.note(hub, link, What.INPUT, [viewer.key], text=keys.data.decode("utf-8", "backslashreplace"))
    hub.times.key_is_passed_on()
    if rank_link.connection.send_data(data, CONTROL_RESERVE):
        if viewer is not None:
            hub.recorded.typed(viewer.key, keys.data)
        hub.meters.bytes_to_ranks += len(keys.data)
    else:
        _discard(hub, link, keys, "the rank does not read")


def _discard(hub: Hub, link: TerminalLink, keys: Input, reason: str) -> None:
    count = len(keys.data)
    message = fitted(Discarded, generation=keys.generation, offset=keys.offset + count, count=count, reason=reason)
    link.connection.send_message(message)


def _greet(hub: Hub, link: TerminalLink, message: Greet) -> None:
    if link.name is not None:
        raise PeerError("a second `greet`")
    link.name = message.name
    audited.note(hub, link, What.CONNECT)
    hub.welcome(link.connection, role=link.role.value)


def _subscribe(hub: Hub, link: TerminalLink, message: Subscribe) -> None:
    keys = hub.registry.keys()
    hub.slow_down(link, len(keys) * LISTED_COST)
    # A page leaves out what the terminal may not see.
    link.changes.subscribe(keys, once=message.once)
    hub.listing.supply(link)
    hub.log_listeners.set(link.number, wants=message.logs)


def _attach(hub: Hub, link: TerminalLink, message: Attach) -> None:
    rank = hub.registry.find(message.key) if hub.listing.may_see(link, message.key) else None
    if rank is None:
        text = f"no rank has the key {message.key!r}"
        hub.refuse(link.connection, RefusalCode.NO_SUCH_RANK, text)
    elif rank.state is RankState.EXITED:
        hub.refuse(link.connection, RefusalCode.GONE, f"{rank.address} has exited{with_status(rank)}")
    elif hub.seats.is_full(message.key, link.number) and not _makes_room(hub, rank, message):
        text = f"{rank.address} has {limits.MAX_VIEWERS_PER_RANK} terminals already"
        hub.refuse(link.connection, RefusalCode.FULL, text)
    else:
        name = link.name or "?"
        audited.note(hub, link, What.ATTACH, [message.key], action=message.mode.value)
        hub.carry_out(hub.seats.attach(link.number, name, message, rank.report.generation))
        hub.recorded.tell(link.number, message.key)
        if rank.report.session is not None:
            hub.want_repaint(rank.key)


def _makes_room(hub: Hub, rank: RankRecord, message: Attach) -> bool:
    """Tell whether a terminal gets a seat at a full rank: a driver does, and a watcher may be closed for it."""
    if hub.seats.driver(rank.key) is None:
        return message.mode is not Mode.WATCH
    if message.mode is not Mode.TAKE and message.resume is None:
        return False
    looking = list(hub.seats.last_to_look(rank.key))
    # Terminals with a watcher's token go first: the others wait for the keyboard.
    gives_way = next((number for number in looking if hub.terminals[number].role is Role.WATCHER), looking[0])
    departures.give_way(hub, gives_way, f"{rank.address} has as many terminals as it may, and one that types came")
    return True


def _take(hub: Hub, link: TerminalLink, _: Take) -> None:
    rank = _rank_of(hub, link)
    if rank is not None:
        audited.note(hub, link, What.TAKE, [rank.key])
        hub.carry_out(hub.seats.take(link.number, rank.report.generation))


def _detach(hub: Hub, link: TerminalLink, _: Detach) -> None:
    viewer = hub.seats.viewer(link.number)
    if viewer is not None:
        audited.note(hub, link, What.DETACH, [viewer.key])
    hub.carry_out(hub.seats.leave(link.number))


def _resize(hub: Hub, link: TerminalLink, message: Resize) -> None:
    if _rank_of(hub, link) is not None:
        hub.carry_out(hub.seats.resize(link.number, message.rows, message.columns))


def _repaint(hub: Hub, link: TerminalLink, _: Repaint) -> None:
    rank = _rank_of(hub, link)
    if rank is not None:
        hub.want_repaint(rank.key)


def _dial(hub: Hub, link: TerminalLink, message: Dial) -> None:
    if hub.dial is None:
        hub.refuse(link.connection, RefusalCode.CANT_DIAL, "this broker dials nobody")
    elif link.bearer.job is not None:
        hub.refuse(link.connection, RefusalCode.ROLE, f"this token is for job {link.bearer.job} alone")
    else:
        audited.note(hub, link, What.QUESTION, action="dial", text=f"{message.host}:{message.port}")
        hub.dial(link.number, message.host, message.port)


def _rank_of(hub: Hub, link: TerminalLink) -> RankRecord | None:
    """Return the rank where a terminal sits; it is refused if it sits nowhere."""
    viewer = hub.seats.viewer(link.number)
    rank = hub.registry.find(viewer.key) if viewer else None
    if rank is None:
        _refuse_not_attached(hub, link)
    return rank


def _refuse_not_attached(hub: Hub, link: TerminalLink) -> None:
    hub.refuse(link.connection, RefusalCode.NOT_ATTACHED, "this terminal is not attached to a rank")


_METHODS: Mapping[type[Message], Callable[[Hub, TerminalLink, Any], None]] = {
    Subscribe: _subscribe,
    Attach: _attach,
    Take: _take,
    Detach: _detach,
    Resize: _resize,
    Repaint: _repaint,
    Question: from_asking_terminals.take,
    Reply: from_line_terminals.pass_on,
    Complete: from_line_terminals.pass_on,
    Interrupt: from_line_terminals.pass_on,
    Replay: from_line_terminals.replay,
    Dial: _dial,
    Hang: hang_verdicts.take,
}
