"""What terminals say, and what the broker does about it: one function for each message.

With a watcher's token a terminal can look and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dbg_broker.home.bearer import Role
from dbg_broker.hub import asking, departures
from dbg_broker.hub.asking import with_status
from dbg_broker.hub.links import TerminalLink
from dbg_broker.hub.state import Hub, refuse
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.terminals.seats import InputVerdict
from dbg_wire import limits
from dbg_wire.codec import Input, decode_data
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    Attach,
    Complete,
    Detach,
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
    Withdraw,
)
from dbg_wire.messages.weights import FOR_EACH_RANK
from dbg_wire.records.audit import What
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import fitted

FOR_DRIVERS = (Reply, Complete, Interrupt)
"""What only the driver may send."""

CONTROL_RESERVE = 128 * limits.KIB
"""Bytes of a rank's queue that input leaves free, so that control messages have room even if the rank doesn't read."""

_DOES_NOT_READ = "the rank does not read, and gets no more until it does"

_ONLY_DRIVERS = "this token may only watch; `dbg-broker token --role driver` prints one that may type"


def _pass_on(hub: Hub, link: TerminalLink, message: Reply | Complete | Interrupt) -> None:
    """Pass a message of the driver on to the rank, and refuse it from another terminal.

    The message is lost if the rank is lost: the terminal gets a new seat when the rank is back, and sends it again.
    """
    key = _typed_at(hub, link, message.generation, partial(refuse, link.connection, RefusalCode.NOT_DRIVING))
    if key is None:
        return
    if isinstance(message, Interrupt):
        hub.journal.note(link, What.INTERRUPT, [key])
    elif isinstance(message, Reply) and hub.journal.audits_input:
        hub.journal.note(link, What.INPUT, [key], text=message.text)
    if not hub.ranks.send(key, message):
        refuse(link.connection, RefusalCode.FULL, _DOES_NOT_READ)


def _typed_at(hub: Hub, link: TerminalLink, generation: int, stale: Callable[[str], None]) -> str | None:
    """Return the rank at which a terminal types; None if what it has typed is not for a rank, and it is told why.

    ``stale`` tells why not of what was typed for an earlier turn.
    """
    verdict = hub.terminals.seats.judge_input(link.number, generation)
    viewer = hub.terminals.seats.viewer(link.number)
    if verdict is InputVerdict.NOT_ATTACHED or viewer is None:
        _refuse_not_attached(link)
    elif verdict is InputVerdict.NOT_DRIVING:
        text = "another terminal types at this rank; take the keyboard first"
        refuse(link.connection, RefusalCode.NOT_DRIVING, text)
    elif verdict is InputVerdict.STALE:
        stale("it was typed for an earlier turn at the keyboard")
    else:
        return viewer.key
    return None


def _replay(hub: Hub, link: TerminalLink, message: Replay) -> None:
    """Ask the rank for its log for a terminal that sits there; the log goes to all terminals there."""
    rank = _rank_of(hub, link)
    if rank is not None:
        hub.ranks.send(rank.key, message)


def _verdict(hub: Hub, link: TerminalLink, message: Hang) -> None:
    """Pass a verdict on; one of a watcher, or on a job that its token is not for, is dropped."""
    if hub.journal.occasions is None or link.role is Role.WATCHER or link.bearer.job not in (None, message.job):
        return
    hub.journal.occasions.hang(message, link.bearer.shown if link.bearer.name else "")


def receive(hub: Hub, link: TerminalLink, message: Message) -> None:
    """Do what a terminal's message asks. Raise PeerError if it breaks the protocol."""
    if isinstance(message, Greet):
        _greet(hub, link, message)
    elif link.name is None:
        raise PeerError("the first message of a terminal is not `greet`")
    elif link.role is Role.WATCHER and not _may_watcher(message):
        request = message.request if isinstance(message, Question) else None
        refuse(link.connection, RefusalCode.ROLE, _ONLY_DRIVERS, request)
    else:
        _METHODS[type(message)](hub, link, message)


def receive_input(hub: Hub, link: TerminalLink, data: bytes) -> None:
    """Pass keys on to the rank, if this terminal types there. Raise PeerError if they are none."""
    if link.name is None:
        raise PeerError("terminal bytes before `greet`")
    keys = decode_data(data, Sender.CLIENT)
    if not isinstance(keys, Input):
        raise PeerError("a binary frame that no client sends")
    if link.role is Role.WATCHER:
        refuse(link.connection, RefusalCode.ROLE, _ONLY_DRIVERS)
        return
    key = _typed_at(hub, link, keys.generation, partial(_discard, link, keys))
    if key is not None:
        _relay(hub, link, key, keys, data)


def _may_watcher(message: Message) -> bool:
    if isinstance(message, Attach):
        return message.mode is Mode.WATCH
    if isinstance(message, Question):
        return message.action in asking.FOR_WATCHERS
    return not isinstance(message, (Take, *FOR_DRIVERS))


def _relay(hub: Hub, link: TerminalLink, key: str, keys: Input, data: bytes) -> None:
    rank_link = hub.ranks.links.get(key)
    if rank_link is None:
        # A lost rank may come back: the terminal keeps keys that aren't settled, and its new seat tells it what to do.
        return
    if hub.journal.audits_input:
        hub.journal.note(link, What.INPUT, [key], text=keys.data.decode("utf-8", "backslashreplace"))
    hub.meters.key_waits.key_is_passed_on()
    if rank_link.connection.send_data(data, CONTROL_RESERVE):
        hub.meters.bytes_to_ranks += len(keys.data)
    else:
        _discard(link, keys, _DOES_NOT_READ)


def _discard(link: TerminalLink, keys: Input, reason: str) -> None:
    count = len(keys.data)
    message = fitted(Discarded, generation=keys.generation, offset=keys.offset + count, count=count, reason=reason)
    link.connection.send_message(message)


def _greet(hub: Hub, link: TerminalLink, message: Greet) -> None:
    if link.name is not None:
        raise PeerError("a second `greet`")
    link.name = message.name
    hub.journal.note(link, What.CONNECT)
    hub.welcome(link.connection, role=link.role.value)


def _subscribe(hub: Hub, link: TerminalLink, message: Subscribe) -> None:
    keys = hub.ranks.registry.keys()
    link.connection.charge(len(keys) * FOR_EACH_RANK[Subscribe])
    # A page leaves out what the terminal may not see.
    link.changes.subscribe(keys, hub.terminals.listing.feed.end, once=message.once, fold=message.fold)
    hub.terminals.listing.supply(link)
    hub.set_listener(link.number, wants=message.logs)


def _attach(hub: Hub, link: TerminalLink, message: Attach) -> None:
    rank = hub.ranks.registry.find(message.key) if hub.terminals.listing.may_see(link, message.key) else None
    if rank is None:
        text = f"no rank has the key {message.key!r}"
        refuse(link.connection, RefusalCode.NO_SUCH_RANK, text)
    elif rank.state is RankState.EXITED:
        refuse(link.connection, RefusalCode.GONE, f"{rank.address} has exited{with_status(rank)}")
    elif hub.terminals.seats.is_full(message.key, link.number) and not _makes_room(hub, rank, message):
        text = f"{rank.address} has {limits.MAX_VIEWERS_PER_RANK} terminals already"
        refuse(link.connection, RefusalCode.FULL, text)
    else:
        name = link.name or "?"
        hub.journal.note(link, What.ATTACH, [message.key], action=message.mode.value)
        hub.carry_out(hub.terminals.seats.attach(link.number, name, message, rank.report.generation))
        if rank.report.session is not None:
            hub.ranks.want_repaint(rank.key)


def _makes_room(hub: Hub, rank: RankRecord, message: Attach) -> bool:
    """Tell whether a terminal gets a seat at a full rank: a driver does, and a watcher may be closed for it."""
    if hub.terminals.seats.driver(rank.key) is None:
        return message.mode is not Mode.WATCH
    if message.mode is not Mode.TAKE and message.resume is None:
        return False
    looking = list(hub.terminals.seats.last_to_look(rank.key))
    # Terminals with a watcher's token go first: the others wait for the keyboard.
    gives_way = next((number for number in looking if hub.terminals.links[number].role is Role.WATCHER), looking[0])
    departures.give_way(hub, gives_way, f"{rank.address} has as many terminals as it may, and one that types came")
    return True


def _take(hub: Hub, link: TerminalLink, _: Take) -> None:
    rank = _rank_of(hub, link)
    if rank is not None:
        hub.journal.note(link, What.TAKE, [rank.key])
        hub.carry_out(hub.terminals.seats.take(link.number, rank.report.generation))


def _detach(hub: Hub, link: TerminalLink, _: Detach) -> None:
    viewer = hub.terminals.seats.viewer(link.number)
    if viewer is not None:
        hub.journal.note(link, What.DETACH, [viewer.key])
    hub.carry_out(hub.terminals.seats.leave(link.number))


def _resize(hub: Hub, link: TerminalLink, message: Resize) -> None:
    if _rank_of(hub, link) is not None:
        hub.carry_out(hub.terminals.seats.resize(link.number, message.rows, message.columns))


def _repaint(hub: Hub, link: TerminalLink, _: Repaint) -> None:
    rank = _rank_of(hub, link)
    if rank is not None:
        hub.ranks.want_repaint(rank.key)


def _rank_of(hub: Hub, link: TerminalLink) -> RankRecord | None:
    """Return the rank where a terminal sits; it is refused if it sits nowhere."""
    viewer = hub.terminals.seats.viewer(link.number)
    rank = hub.ranks.registry.find(viewer.key) if viewer else None
    if rank is None:
        _refuse_not_attached(link)
    return rank


def _refuse_not_attached(link: TerminalLink) -> None:
    refuse(link.connection, RefusalCode.NOT_ATTACHED, "this terminal is not attached to a rank")


_METHODS: Mapping[type[Message], Callable[[Hub, TerminalLink, Any], None]] = {
    Subscribe: _subscribe,
    Attach: _attach,
    Take: _take,
    Detach: _detach,
    Resize: _resize,
    Repaint: _repaint,
    Question: asking.receive,
    Withdraw: asking.withdraw,
    Reply: _pass_on,
    Complete: _pass_on,
    Interrupt: _pass_on,
    Replay: _replay,
    Hang: _verdict,
}
