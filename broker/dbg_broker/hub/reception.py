"""The entry of connections: which are admitted, in which role, and which module takes their messages."""

from __future__ import annotations

import logging
from collections.abc import Callable

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.home.tokens import Tokens
from dbg_broker.hub import departures, from_ranks, from_terminals
from dbg_broker.hub.admission import Admission, ReadTokens
from dbg_broker.hub.links import RankLink, RankPeer, TerminalLink
from dbg_broker.hub.state import Hub
from dbg_broker.hub.sweeper import Sweeper
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.frames import MESSAGE_SECONDS, CloseCode
from dbg_broker.net.http import HttpAnswer, Upgrade
from dbg_broker.net.metrics import Budget, Payer
from dbg_broker.quotas import TokenBucket
from dbg_wire import limits
from dbg_wire.codec import UnknownType, decode
from dbg_wire.errors import PeerError
from dbg_wire.log_form import LogForm
from dbg_wire.messages import Answer, Message, Pulse, RefusalCode, Register, Report, Sender, Testimony

logger = logging.getLogger("dbg_broker")

KEYS_COST = 16
"""Bytes that a terminal's keys count beside their own: 7,000 keys a second pass, a flood of empty frames doesn't."""

MESSAGE_COST = 256
"""Bytes that a terminal's control message counts beside its own: a thousand a second, which cost 4 % of the broker."""

RANK_MESSAGE_COST = 2 * limits.KIB
"""Bytes that a rank's control message counts beside its own: 2,000 a second, far above what keys and steps lead to."""

RANK_OUTPUT_COST = 256
"""Bytes that a frame of output counts: its content is passed on unread, so that only the number of frames costs."""

KEPT = frozenset({Register, Report, Pulse, Testimony})
"""What of a rank's and its guard's messages is kept until the next one of its kind comes."""


class Reception:
    """Owner of all connections: it takes them, and what comes on them, for a hub."""

    def __init__(self, hub: Hub, tokens: Tokens, read_tokens: ReadTokens | None = None) -> None:
        self._hub = hub
        self._admission = Admission(hub, tokens, read_tokens)
        self._sweeper = Sweeper(hub)

    # ---------------------------------------------------------------------------------------------------- connections

    @property
    def can_accept(self) -> bool:
        """Tell whether one more connection may come now."""
        return self._hub.arrivals.has_room(self._hub.clock())

    def make_room(self, error: OSError) -> bool:
        """Have a descriptor free for an accept that found none: a spare one, or soon that of the oldest newcomer.

        Return whether accept may be tried again at once.
        """
        hub = self._hub
        if hub.descriptors.lend(error):
            return True
        oldest = hub.arrivals.oldest(hub.clock())
        if oldest is not None:
            hub.meters.budgets.hit(Payer.STRANGER, Budget.WAITING)
            self._give_up(oldest, "too many connections wait")
        return False

    def turned_away(self, peer: str) -> None:
        """Count a peer whose address is not allowed."""
        self._hub.meters.turned_away += 1
        logger.info("a connection from %s is closed: --allow does not name its address", peer)

    def accepted(self, connection: PeerConnection) -> None:
        """Count a connection until its first message; if too many wait, the oldest is closed."""
        logger.debug("connection %d comes from %s", connection.number, connection.peer)
        hub = self._hub
        given_up = hub.arrivals.come(connection.number, connection, connection.network, hub.clock())
        if given_up is not None:
            oldest, budget = given_up
            hub.meters.budgets.hit(Payer.STRANGER, budget)
            self._give_up(oldest, "too many connections wait")

    def begins(self, connection: PeerConnection, begin: Callable[[], None]) -> None:
        """Call ``begin``, which reads the first bytes of a connection, when it is its turn."""
        is_slow = self._hub.standings.is_slow(connection.network, self._hub.clock())
        self._hub.entrance.call(begin, connection.network, is_slow=is_slow)

    def admit(self, connection: PeerConnection, upgrade: Upgrade) -> Bearer | HttpAnswer | None:
        """Return who may have a WebSocket for this request, or what to answer instead; None if that comes later."""
        return self._admission.admit(connection, upgrade)

    def use(self, tokens: Tokens) -> None:
        """Go on with these tokens, and close the connections that were opened with others."""
        self._admission.use(tokens)

    def opened(self, connection: PeerConnection, bearer: Bearer) -> None:
        """Take a new WebSocket."""
        logger.debug("connection %d is open, for %s", connection.number, bearer.shown)
        hub = self._hub
        hub.meters.handshakes += 1
        hub.standings.succeeded(connection.network, hub.clock())
        if bearer.expires is not None:
            self._admission.look_at_end(connection, bearer.expires)
        if bearer.role is Role.RANK:
            hub.rank_places.take(connection.number, bearer.shared_digest, connection.network)
            hub.link_rank(connection, bearer=bearer)
            return
        link = TerminalLink(connection, bearer, TokenBucket(hub.clock(), limits.MAX_INPUT_PER_SECOND))
        link.told = None if bearer.job is None else set()
        hub.links[connection.number] = hub.terminals[connection.number] = link
        if bearer.role is Role.WATCHER:
            hub.watchers[connection.number] = None
        elif len(hub.terminals) > hub.capacity.clients and hub.watchers:
            why = "the broker is full, and a terminal that may type came"
            departures.give_way(hub, next(reversed(hub.watchers)), why)

    def failed(self, connection: PeerConnection, reason: str) -> None:
        """Count a stranger, once for each connection."""
        if connection.has_failed:
            # It was given up during its TLS handshake, and counted then.
            return
        connection.has_failed = True
        self._hub.meters.failures += 1
        self._hub.standings.failed(connection.network, self._hub.clock())
        logger.info("the connection from %s is closed: %s", connection.peer, reason)

    def lost(self, connection: PeerConnection) -> None:
        """Forget a connection."""
        departures.lost(self._hub, connection)

    def overflowed(self, connection: PeerConnection) -> None:
        """Note that a control message had no room."""
        if connection.number in self._hub.terminals:
            departures.close_slow(self._hub, connection)
        else:
            logger.info("the rank at %s does not read; a message to it is dropped", connection.peer)

    def unfinished(self, connection: PeerConnection, size: int, *, is_new: bool) -> None:
        """Count the bytes of a message that is not complete; if all are too many, close the connection with most."""
        hub = self._hub
        if connection.number not in hub.links:
            return
        hub.unfinished.note(connection.number, size, hub.clock(), is_new=is_new)
        while (number := hub.unfinished.heaviest()) is not None:
            self._end_unfinished(number, "messages that are not complete take too much memory, most of it here").abort()

    def drained(self, connection: PeerConnection) -> None:
        """Send what had no room."""
        hub = self._hub
        link = hub.terminals.get(connection.number)
        if link is None:
            return
        viewer = hub.seats.viewer(link.number)
        if connection.missed_output() and viewer is not None:
            if hub.has_log(viewer.key):
                # A terminal that is sent its seat asks for what it has missed; the rank may send nothing else for long.
                hub.send_seat(link.number)
            else:
                hub.want_repaint(viewer.key)
        hub.listing.supply(link)

    def sweep(self, late: float) -> None:
        """Do what is due by the clock, ``late`` seconds after its time."""
        self._hub.times.timer_ran(late)
        now = self._hub.clock()
        self._hub.descriptors.refill()
        while (oldest := self._hub.arrivals.surplus(now)) is not None:
            self._hub.meters.budgets.hit(Payer.STRANGER, Budget.WAITING)
            self._give_up(oldest, "too many connections wait")
        for connection in self._hub.arrivals.overdue(now, limits.HANDSHAKE_SECONDS):
            self._hub.meters.budgets.hit(Payer.STRANGER, Budget.HANDSHAKE_SECONDS)
            self._give_up(connection, f"no first message within {limits.HANDSHAKE_SECONDS:g} s")
        for number in self._hub.unfinished.overdue(now):
            self._end_unfinished(number, f"a message was not complete within {MESSAGE_SECONDS:g} s")
        self._sweeper.sweep(now)

    def close_all(self, then: Callable[[], None]) -> None:
        """Close all connections, and call ``then`` when none is left, at once if there is none."""
        hub = self._hub
        hub.on_empty = then
        for connection in hub.arrivals.connections():
            if not connection.is_open:
                connection.abort()
        for link in tuple(hub.links.values()):
            link.connection.close(CloseCode.SHUTDOWN, "the broker shuts down")
        if not hub.connected:
            then()

    def abort_all(self) -> None:
        """End at once what :meth:`close_all` has not closed."""
        for link in tuple(self._hub.links.values()):
            link.connection.abort()

    # ------------------------------------------------------------------------------------------------- what they say

    def has_bytes(self, connection: PeerConnection) -> bool:
        """Have a connection read what came, now or when it is its turn; return whether it waits for its turn."""
        hub = self._hub
        link = hub.links.get(connection.number)
        if link is not None:
            return hub.turns.take(connection, link.share, types=self._types(connection))
        is_slow = hub.standings.is_slow(connection.network, hub.clock())
        hub.entrance.take(connection, connection.network, is_slow=is_slow, is_ahead=connection.is_ahead)
        return True

    def text_received(self, connection: PeerConnection, text: str) -> None:
        """Take a control message: refuse it, or hand it to its function."""
        hub = self._hub
        link = hub.links.get(connection.number)
        if link is None:
            return
        try:
            if isinstance(link, RankLink):
                self._charge(connection, link.rate, len(text) + RANK_MESSAGE_COST)
                self._take_from_rank(connection, link, text)
            else:
                self._charge(connection, link.rate, len(text) + MESSAGE_COST)
                from_terminals.take(hub, link, self._read(connection, text, Sender.CLIENT))
        except UnknownType as error:
            hub.refuse(connection, RefusalCode.UNKNOWN_TYPE, error.reason)
        except PeerError as error:
            self._close_bad(connection, error)

    def _read(self, connection: PeerConnection, text: str, sender: Sender) -> Message:
        message = decode(text, sender)
        logger.debug("connection %d says %s", connection.number, LogForm(message))
        return message

    def _take_from_rank(self, connection: PeerConnection, link: RankLink, text: str) -> None:
        """Take what a rank or its guard says, and count what is kept of it."""
        kind: type[Message]
        length = len(text)
        if from_ranks.keeps_unread(self._hub, link, text):
            logger.debug("connection %d says a pulse of %d characters", connection.number, len(text))
            kind = Pulse
        else:
            message = self._read(connection, text, Sender.AGENT)
            from_ranks.take(self._hub, link, message)
            kind = type(message)
            if isinstance(message, Testimony) and message.registration is not None:
                # A guard's later word replaces the stack of its first one, and not the registration that came with it.
                kind = Register
            elif isinstance(message, Answer) and message.frames and link.rank is not None:
                kind, length = Pulse, link.rank.keep_stack(message.frames)
        if kind in KEPT:
            self._note_memory(link, kind, length)

    def _note_memory(self, link: RankLink, kind: type[Message], length: int) -> None:
        """Count what is kept of a message of a rank or of its guard; a rank that takes too much is closed."""
        key = link.guard_of if link.rank is None else link.rank.key
        if key is not None and self._hub.live_bytes.note(key, kind.__name__, length):
            departures.bound_ranks(self._hub, key)

    def data_received(self, connection: PeerConnection, data: bytes) -> None:
        """Take terminal bytes."""
        hub = self._hub
        link = hub.links.get(connection.number)
        try:
            if isinstance(link, RankLink):
                self._charge(connection, link.rate, RANK_OUTPUT_COST)
                from_ranks.take_output(hub, link, data)
            elif link is not None:
                self._charge(connection, link.rate, len(data) + KEYS_COST)
                from_terminals.take_input(hub, link, data)
        except PeerError as error:
            self._close_bad(connection, error)

    def frame_received(self, connection: PeerConnection) -> None:
        """Note a frame that is no message, and costs as much as one."""
        link = self._hub.links.get(connection.number)
        if link is not None:
            self._charge(connection, link.rate, RANK_MESSAGE_COST if isinstance(link, RankLink) else MESSAGE_COST)

    # ---------------------------------------------------------------------------------------------------------- inner

    def _types(self, connection: PeerConnection) -> bool:
        """Tell whether keys come on this connection, or their echo."""
        hub = self._hub
        link = hub.links.get(connection.number)
        if isinstance(link, RankLink):
            return link.rank is not None and hub.seats.driver(link.rank.key) is not None
        return link is not None and hub.seats.generation_of(link.number) is not None

    def _charge(self, connection: PeerConnection, rate: TokenBucket, size: int) -> None:
        seconds = rate.spend(size, self._hub.clock())
        if seconds > 0:
            connection.rest(seconds)

    def _give_up(self, connection: PeerConnection, reason: str) -> None:
        self._hub.arrivals.leave(connection.number)
        self.failed(connection, reason)
        connection.abort()

    def _end_unfinished(self, number: int, reason: str) -> RankPeer:
        self._hub.unfinished.drop(number)
        connection = self._hub.links[number].connection
        logger.info("the connection from %s is closed: %s", connection.peer, reason)
        connection.close(CloseCode.SLOW, reason, flush=False)
        return connection

    def _close_bad(self, connection: PeerConnection, error: PeerError) -> None:
        logger.info("the connection from %s is closed: %s", connection.peer, error)
        self._hub.refuse(connection, RefusalCode.BAD_MESSAGE, error.reason)
        connection.close(CloseCode.BAD_MESSAGE, error.reason)
