"""Terminals: connections that open and close, and one method for each message.

With a watcher's token a terminal can only look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dbg_broker.home.tokens import Bearer, Role
from dbg_broker.journal.journal import Journal
from dbg_broker.net.handshake_slots import Capacity
from dbg_broker.net.metrics import Meters
from dbg_broker.net.outbox import Turns
from dbg_broker.net.peer import Peer
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.guards import Guards
from dbg_broker.ranks.questions import Asked
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.table import RankTable
from dbg_broker.relay import weights
from dbg_broker.relay.relay import Relay, refuse
from dbg_broker.relay.seats import InputVerdict
from dbg_broker.terminals.asking import QuestionDispatcher
from dbg_broker.terminals.link import TerminalLink
from dbg_broker.terminals.listing import Listing
from dbg_broker.terminals.notices import Notices
from dbg_broker.timers import Timers
from dbg_broker.welcome import Welcomes
from dbg_command.audit import AuditEvent
from dbg_wire import limits
from dbg_wire.codec import Input, decode_data
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    Action,
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
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import clamp

CHECK_SECONDS = 1.0
"""Interval between two checks of the terminals, in seconds, so that a silent one is detected within 6 s."""

PING_SECONDS = 2.5
"""Silence after which a terminal is pinged, in seconds; usually a terminal itself sends a ping every two seconds."""

SEAT_SECONDS = 25.0
"""Silence after which a terminal is disconnected, in seconds: others may wait for its seat at the keyboard."""

ABSENCE_SECONDS = 3.0
"""If two checks are at least this many seconds apart, the broker concludes that it or its host was suspended."""


FOR_DRIVERS = (Take, Reply, Complete, Interrupt)
"""Messages that only a terminal with a driver's token may send."""

FOR_WATCHERS = frozenset({Action.SCREEN, Action.WHERE, Action.SAMPLE})
"""Questions that only read."""

_DOES_NOT_READ = "the rank does not read its input; it gets no more until it does"

_ONLY_DRIVERS = "this token may only watch; `dbg-broker token --role driver` prints one that may type"

logger = logging.getLogger("dbg_broker")


class Terminals:
    """All terminals: ``links`` are their connections by number, ``watchers`` the ones with a watcher's token."""

    sender = Sender.CLIENT

    def __init__(
        self,
        timers: Timers,
        turns: Turns,
        relay: Relay,
        welcomes: Welcomes,
        journal: Journal,
        *,
        capacity: Capacity,
        meters: Meters,
        table: RankTable,
        asked: Asked,
        guards: Guards,
    ) -> None:
        self._relay, self._seats, self._welcomes, self._journal = relay, relay.seats, welcomes, journal
        self._capacity, self._meters, self._table, self._asked = capacity, meters, table, asked
        self.links: dict[int, TerminalLink] = {}
        self.watchers: dict[int, None] = {}
        self.listing = Listing(timers, turns, table, relay.seats, self.links)
        self._notices = Notices(relay.seats, self.links)
        for watcher in (self.listing, self._notices):
            table.add_watcher(watcher)
        asking = QuestionDispatcher(
            timers,
            turns,
            relay,
            journal,
            table=table,
            asked=asked,
            guards=guards,
            listing=self.listing,
            notices=self._notices,
        )
        self._looked_at = timers.clock()
        self._methods: Mapping[type[Message], Callable[[TerminalLink, Any], None]] = {
            Subscribe: self._subscribe,
            Attach: self._attach,
            Take: self._take,
            Detach: self._detach,
            Resize: self._resize,
            Repaint: self._repaint,
            Question: asking.receive,
            Withdraw: asking.withdraw,
            Reply: self._pass_on,
            Complete: self._pass_on,
            Interrupt: self._pass_on,
            Replay: self._replay,
            Hang: self._verdict,
        }

    # ------------------------------------------------------------------------------------------------------ connections

    def link(self, peer: Peer, bearer: Bearer) -> TerminalLink:
        """Accept a terminal's connection; its greeting follows."""
        link = TerminalLink(peer, bearer, listed=None if bearer.job is None else set())
        self.links[peer.number] = link
        self._relay.terminals[peer.number] = peer
        if bearer.role is Role.WATCHER:
            self.watchers[peer.number] = None
        elif len(self.links) > self._capacity.clients and self.watchers:
            self.close_to_free_slot(
                next(reversed(self.watchers)), "the broker is full; this slot goes to a terminal that types"
            )
        return link

    def left(self, link: TerminalLink) -> None:
        """Forget a terminal whose connection has ended. A second call does nothing."""
        number = link.number
        if self.links.pop(number, None) is None:
            return
        del self._relay.terminals[number]
        self.watchers.pop(number, None)
        if link.name is not None:
            viewer = self._seats.viewer(number)
            self._journal.note(link, AuditEvent.LEAVE, [] if viewer is None else [viewer.key])
        self._notices.listen(number, wants=False)
        for question in self._asked.questions.of(number):
            self._asked.end(question)
        self._table.seat_changed(self._seats.leave(number))

    def close_to_free_slot(self, number: int, why: str) -> None:
        """Close a terminal that only looks, to free its slot."""
        link = self.links[number]
        peer = link.connection
        logger.info("terminal at %s disconnected to free its slot: %s", peer.peer, why)
        refuse(peer, RefusalCode.FULL, why)
        peer.close(CloseCode.GIVES_WAY, why)
        # The slot is free at once, even if the terminal reads the close later.
        self.left(link)

    # ------------------------------------------------------------------------------------------------------- silence

    def sweep(self, now: float) -> None:
        """Check the terminals if this is due. If the broker was suspended, they first get time to send something."""
        seconds = now - self._looked_at
        if seconds < CHECK_SECONDS:
            return
        self._looked_at = now
        for number, peer in tuple(self._relay.terminals.items()):
            if seconds >= ABSENCE_SECONDS:
                peer.heard_at = max(now, peer.heard_at)
            self._check(number, peer, now - peer.heard_at)

    def _check(self, number: int, peer: Peer, unheard: float) -> None:
        if unheard >= SEAT_SECONDS:
            self._meters.disconnected += 1
            logger.info("terminal at %s disconnected: it is silent", peer.peer)
            peer.abort()
            return
        if unheard >= PING_SECONDS:
            peer.ping()
        key = self._seats.note_silence(number, unheard >= limits.SILENT_SECONDS)
        if key is not None:
            self._table.line_changed(key)

    # --------------------------------------------------------------------------------------------------------- messages

    def receive(self, link: TerminalLink, message: Message) -> None:
        """Handle a terminal's message. Raise PeerError if it breaks the protocol."""
        if isinstance(message, Greet):
            self._greet(link, message)
        elif link.name is None:
            raise PeerError("the first message of a terminal is not `greet`")
        elif link.role is Role.WATCHER and not _may_watcher(message):
            request = message.request if isinstance(message, Question) else None
            refuse(link.connection, RefusalCode.ROLE, _ONLY_DRIVERS, request)
        else:
            self._methods[type(message)](link, message)

    def receive_data(self, link: TerminalLink, data: bytes) -> None:
        """Pass keys on to the rank if this terminal drives it. Raise PeerError if the frame is invalid."""
        if link.name is None:
            raise PeerError("terminal input before `greet`")
        keys = decode_data(data, Sender.CLIENT)
        if not isinstance(keys, Input):
            raise PeerError("a binary frame that is not terminal input")
        if link.role is Role.WATCHER:
            refuse(link.connection, RefusalCode.ROLE, _ONLY_DRIVERS)
            return
        key = self._typed_at(link, keys.generation, partial(_discard, link, keys))
        if key is None:
            return
        if self._journal.audits_input and key in self._relay.ranks:
            self._journal.note(link, AuditEvent.INPUT, [key], text=keys.data.decode("utf-8", "backslashreplace"))
        if not self._relay.keys(key, data, len(keys.data)):
            _discard(link, keys, _DOES_NOT_READ)

    def keeps_unread(self, link: TerminalLink, text: str) -> bool:
        """Return False: every message of a terminal is decoded at once."""
        return False

    def drained(self, link: TerminalLink) -> None:
        """Send a terminal the data that did not fit before."""
        if link.connection.missed_output():
            self._table.missed_output(link.number)
        self.listing.supply(link)

    def overflowed(self, link: TerminalLink) -> None:
        """Close a terminal that doesn't read, and drop the data that waits for it."""
        self._meters.disconnected += 1
        logger.info("terminal at %s disconnected: it does not keep up", link.connection.peer)
        link.connection.close(CloseCode.SLOW, "the terminal does not keep up", flush=False)

    # ------------------------------------------------------------------------------------------------------------ input

    def _pass_on(self, link: TerminalLink, message: Reply | Complete | Interrupt) -> None:
        """Pass a message of the driver on to the rank, and refuse it from another terminal.

        The message is lost if the rank is lost. When the rank is back, the terminal gets a new seat and sends the
        message again.
        """
        stale = partial(refuse, link.connection, RefusalCode.NOT_DRIVING)
        key = self._typed_at(link, message.generation, stale)
        if key is None:
            return
        if isinstance(message, Interrupt):
            self._journal.note(link, AuditEvent.INTERRUPT, [key])
        elif isinstance(message, Reply) and self._journal.audits_input:
            self._journal.note(link, AuditEvent.INPUT, [key], text=message.text)
        if not self._relay.send(key, message):
            refuse(link.connection, RefusalCode.FULL, _DOES_NOT_READ)

    def _typed_at(self, link: TerminalLink, generation: int, stale: Callable[[str], None]) -> str | None:
        """Return the rank that a terminal drives. If the terminal may not type now, refuse its input and return None.

        ``stale`` refuses input that was typed for an earlier turn at the keyboard.
        """
        verdict = self._seats.judge_input(link.number, generation)
        viewer = self._seats.viewer(link.number)
        if verdict is InputVerdict.NOT_ATTACHED or viewer is None:
            _refuse_not_attached(link)
        elif verdict is InputVerdict.NOT_DRIVING:
            text = "another terminal drives this rank; take the keyboard first"
            refuse(link.connection, RefusalCode.NOT_DRIVING, text)
        elif verdict is InputVerdict.STALE:
            stale("it was typed for an earlier turn at the keyboard")
        else:
            return viewer.key
        return None

    # ------------------------------------------------------------------------------------------------------------ seats

    def _greet(self, link: TerminalLink, message: Greet) -> None:
        if link.name is not None:
            raise PeerError("a second `greet`")
        link.name = message.name
        self._journal.note(link, AuditEvent.CONNECT)
        self._welcomes.send(link.connection, role=link.role.value)

    def _subscribe(self, link: TerminalLink, message: Subscribe) -> None:
        keys = self._table.registry.keys()
        link.connection.charge(len(keys) * weights.FOR_EACH_RANK[Subscribe])
        # The pages of the snapshot leave out ranks that the terminal may not see.
        link.changes.subscribe(keys, self.listing.feed.end, once=message.once)
        self.listing.supply(link)
        self._notices.listen(link.number, wants=message.logs)

    def _attach(self, link: TerminalLink, message: Attach) -> None:
        rank = self._table.registry.find(message.key)
        if rank is None or not link.bearer.may_see(rank.identity.job):
            text = f"no rank has the key {message.key!r}"
            refuse(link.connection, RefusalCode.NO_SUCH_RANK, text)
        elif rank.state is RankState.EXITED:
            refuse(link.connection, RefusalCode.GONE, f"{rank.address} {rank.end.listed().sentence}")
        elif self._seats.is_full(message.key, link.number) and not self._makes_room(rank, message):
            text = f"{rank.address} has {limits.MAX_VIEWERS_PER_RANK} terminals, the maximum"
            refuse(link.connection, RefusalCode.FULL, text)
        else:
            name = link.name or "?"
            self._journal.note(link, AuditEvent.ATTACH, [message.key], action=message.mode.value)
            self._table.seat_changed(self._seats.attach(link.number, name, message, rank.report.generation))
            if rank.report.session is not None:
                self._table.want_repaint(rank.key)

    def _makes_room(self, rank: RankRecord, message: Attach) -> bool:
        """Return True if a terminal gets a seat at a rank that has the maximum number of terminals.

        Only a terminal that wants to type gets a seat, if necessary the seat of a watcher.
        """
        if self._seats.driver(rank.key) is None:
            return message.mode is not Mode.WATCH
        if message.mode is not Mode.TAKE and message.resume is None:
            return False
        looking = list(self._seats.latest_viewers(rank.key))
        # Terminals with a watcher's token are closed first, because the others wait for the keyboard.
        gives_way = next((number for number in looking if number in self.watchers), looking[0])
        why = f"{rank.address} has the maximum number of terminals; this seat goes to one that types"
        self.close_to_free_slot(gives_way, why)
        return True

    def _take(self, link: TerminalLink, _: Take) -> None:
        rank = self._rank_of(link)
        if rank is not None:
            self._journal.note(link, AuditEvent.TAKE, [rank.key])
            self._table.seat_changed(self._seats.take(link.number, rank.report.generation))

    def _detach(self, link: TerminalLink, _: Detach) -> None:
        viewer = self._seats.viewer(link.number)
        if viewer is not None:
            self._journal.note(link, AuditEvent.DETACH, [viewer.key])
        self._table.seat_changed(self._seats.leave(link.number))

    def _resize(self, link: TerminalLink, message: Resize) -> None:
        if self._rank_of(link) is not None:
            self._table.seat_changed(self._seats.resize(link.number, message.rows, message.columns))

    def _repaint(self, link: TerminalLink, _: Repaint) -> None:
        rank = self._rank_of(link)
        if rank is not None:
            self._table.want_repaint(rank.key)

    def _replay(self, link: TerminalLink, message: Replay) -> None:
        """Request a rank's log for a terminal that is attached to it; all terminals of the rank get the log."""
        rank = self._rank_of(link)
        if rank is not None:
            self._relay.send(rank.key, message)

    def _verdict(self, link: TerminalLink, message: Hang) -> None:
        """Report a verdict of ``why`` as an event. Drop it if the token is a watcher's or does not cover the job."""
        if self._journal.occasions is None or link.role is Role.WATCHER or not link.bearer.may_see(message.job):
            return
        self._journal.occasions.hang(message, link.bearer.shown if link.bearer.name else "")

    def _rank_of(self, link: TerminalLink) -> RankRecord | None:
        """Return the rank that a terminal is attached to; refuse its request if there is none."""
        viewer = self._seats.viewer(link.number)
        rank = self._table.registry.find(viewer.key) if viewer else None
        if rank is None:
            _refuse_not_attached(link)
        return rank


def _may_watcher(message: Message) -> bool:
    if isinstance(message, Attach):
        return message.mode is Mode.WATCH
    if isinstance(message, Question):
        return message.action in FOR_WATCHERS
    return not isinstance(message, FOR_DRIVERS)


def _discard(link: TerminalLink, keys: Input, reason: str) -> None:
    count = len(keys.data)
    message = clamp(Discarded, generation=keys.generation, offset=keys.offset + count, count=count, reason=reason)
    link.connection.send_message(message)


def _refuse_not_attached(link: TerminalLink) -> None:
    refuse(link.connection, RefusalCode.NOT_ATTACHED, "this terminal is not attached to a rank")
