"""The entry of connections: which are admitted, in which role, and which module takes their messages."""

from __future__ import annotations

import logging
from collections.abc import Callable

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.home.tokens import Tokens
from dbg_broker.hub import departures, from_ranks, from_terminals
from dbg_broker.hub.admission import Admission
from dbg_broker.hub.links import RankLink, TerminalLink
from dbg_broker.hub.state import Hub, refuse
from dbg_broker.hub.sweeper import Sweeper
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.connections import Channel, Handlers
from dbg_broker.net.websocket import CloseCode
from dbg_broker.quotas import TokenBucket
from dbg_wire.codec import LogForm, UnknownType, decode
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_CONTROL_BYTES
from dbg_wire.messages import Message, RefusalCode, Sender, weights
from dbg_wire.records.record import name_of

logger = logging.getLogger("dbg_broker")


class Reception:
    """Handlers of all connections: it takes them, and what comes on them, for a hub."""

    def __init__(self, hub: Hub, tokens: Tokens) -> None:
        self._hub = hub
        self._admission = Admission(hub, tokens)
        self._sweeper = Sweeper(hub)
        hub.connections.handlers = Handlers(
            admit=self._admission.admit,
            opened=self._opened,
            types=self._types,
            text=self._receive_text,
            data=self._receive_data,
            frame=self._note_frame,
            drained=self._supply,
            overflowed=self._overflowed,
            lost=self.lost,
            sweep=self._sweeper.sweep,
            close_all=self._close_all,
            abort_all=self._abort_all,
        )

    # ---------------------------------------------------------------------------------------------------- connections

    def use(self, tokens: Tokens) -> None:
        """Go on with these tokens, and close the connections that were opened with others."""
        self._admission.use(tokens)

    def lost(self, connection: PeerConnection) -> None:
        """Forget a connection."""
        departures.connection_closed(self._hub, connection)

    def _opened(self, connection: PeerConnection, bearer: Bearer) -> None:
        hub = self._hub
        if bearer.expires is not None:
            self._admission.close_at_expiry(connection.number, bearer.expires)
        if bearer.role is Role.RANK:
            hub.connections.rank_places.take(connection.number, bearer.shared_digest, connection.network)
            connection.account = hub.link_rank(connection, bearer=bearer).account
            return
        terminals, rate = hub.terminals, TokenBucket(hub.timers.clock(), weights.RATES[Sender.CLIENT])
        link = TerminalLink(connection, bearer, rate, told=None if bearer.job is None else set())
        connection.account = link.account
        hub.link_terminal(link)
        if bearer.role is Role.WATCHER:
            terminals.watchers[connection.number] = None
        elif len(terminals.links) > hub.connections.capacity.clients and terminals.watchers:
            why = "the broker is full, and a terminal that may type came"
            departures.give_way(hub, next(reversed(terminals.watchers)), why)

    def _overflowed(self, connection: Channel) -> None:
        if connection.number in self._hub.terminals.links:
            departures.close_slow(self._hub.connections.meters, connection)
        else:
            logger.info("the rank at %s does not read; a message to it is dropped", connection.peer)

    def _supply(self, connection: Channel) -> None:
        """Send a terminal what had no room."""
        hub = self._hub
        link = hub.terminals.links.get(connection.number)
        if link is None:
            return
        if connection.missed_output():
            hub.missed_output(link)
        hub.terminals.listing.supply(link)

    def _close_all(self, then: Callable[[], None]) -> None:
        hub = self._hub
        hub.on_empty = then
        for connection in hub.connections.arrivals.connections():
            if not connection.is_open:
                connection.abort()
        for link in tuple(hub.links.values()):
            link.connection.close(CloseCode.SHUTDOWN, "the broker shuts down")
        if not hub.connected:
            then()

    def _abort_all(self) -> None:
        for link in tuple(self._hub.links.values()):
            link.connection.abort()

    # ------------------------------------------------------------------------------------------------- what they say

    def _types(self, connection: PeerConnection) -> bool:
        hub = self._hub
        link = hub.links.get(connection.number)
        if isinstance(link, RankLink):
            return link.rank is not None and hub.terminals.seats.driver(link.rank.key) is not None
        if link is None:
            return False
        return hub.terminals.seats.generation_of(link.number) is not None

    def _receive_text(self, connection: Channel, text: str) -> None:
        """Take a control message: refuse it, or hand it to its function."""
        link = self._hub.links.get(connection.number)
        if link is None:
            return
        weight = weights.USUAL[Sender.AGENT if isinstance(link, RankLink) else Sender.CLIENT]
        try:
            if isinstance(link, RankLink):
                self._receive_from_rank(connection, link, text)
            else:
                message = self._read(connection, text, Sender.CLIENT)
                weight = weights.weight_of(message, Sender.CLIENT)
                from_terminals.receive(self._hub, link, message)
        except UnknownType as error:
            refuse(connection, RefusalCode.UNKNOWN_TYPE, error.reason)
        except PeerError as error:
            self._close_bad(connection, error)
        self._hub.connections.charge(connection, link.rate, len(text) + weight)

    def _read(self, connection: Channel, text: str, sender: Sender) -> Message:
        message = decode(text, sender)
        logger.debug("connection %d says %s", connection.number, LogForm(message))
        most = weights.MAX_BYTES.get(type(message), MAX_CONTROL_BYTES)
        if len(text) > most:
            raise PeerError(f"{name_of(type(message))} of {len(text)} bytes, above {most}")
        return message

    def _receive_from_rank(self, connection: Channel, link: RankLink, text: str) -> None:
        """Take what a rank or its guard says."""
        if from_ranks.keeps_unread(self._hub, link, text):
            logger.debug("connection %d says a pulse of %d characters", connection.number, len(text))
            return
        from_ranks.receive(self._hub, link, self._read(connection, text, Sender.AGENT))

    def _receive_data(self, connection: Channel, data: bytes) -> None:
        """Take terminal bytes."""
        hub = self._hub
        link = hub.links.get(connection.number)
        try:
            if isinstance(link, RankLink):
                hub.connections.charge(connection, link.rate, weights.OUTPUT)
                from_ranks.receive_output(hub, link, data)
            elif link is not None:
                hub.connections.charge(connection, link.rate, len(data) + weights.KEYS)
                from_terminals.receive_input(hub, link, data)
        except PeerError as error:
            self._close_bad(connection, error)

    def _note_frame(self, connection: PeerConnection) -> None:
        """Note a frame that is no message, and costs as much as one."""
        link = self._hub.links.get(connection.number)
        if link is not None:
            sender = Sender.AGENT if isinstance(link, RankLink) else Sender.CLIENT
            self._hub.connections.charge(connection, link.rate, weights.USUAL[sender])

    def _close_bad(self, connection: Channel, error: PeerError) -> None:
        logger.info("the connection from %s is closed: %s", connection.peer, error)
        refuse(connection, RefusalCode.BAD_MESSAGE, error.reason)
        connection.close(CloseCode.BAD_MESSAGE, error.reason)
