"""The entry of connections: which are admitted, in which role, and which module takes their messages."""

from __future__ import annotations

import logging

from dbg_broker.home.bearer import Bearer, Role
from dbg_broker.hub import departures, from_ranks, from_terminals
from dbg_broker.hub.admission import Admission
from dbg_broker.hub.links import RankLink, TerminalLink
from dbg_broker.hub.state import Hub, refuse
from dbg_broker.net.peer import Owner, Peer
from dbg_broker.net.websocket import CloseCode
from dbg_broker.quotas import TokenBucket
from dbg_wire.codec import LogForm, UnknownType, decode
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_CONTROL_BYTES
from dbg_wire.messages import Message, RefusalCode, Sender, weights
from dbg_wire.records.record import name_of

logger = logging.getLogger("dbg_broker")


class Reception:
    """Entry of the connections of a hub."""

    def __init__(self, hub: Hub, admission: Admission) -> None:
        self._hub = hub
        self._admission = admission

    def opened(self, peer: Peer, bearer: Bearer) -> Owner:
        """Take a new WebSocket, and return the receiver of its messages."""
        hub = self._hub
        if bearer.expires is not None:
            self._admission.close_at_expiry(peer.number, bearer.expires)
        now = hub.timers.clock()
        if bearer.role is Role.RANK:
            peer.limit(TokenBucket(now, weights.RATES[Sender.AGENT]))
            return FromRank(hub, peer, hub.link_rank(peer, bearer=bearer))
        peer.limit(TokenBucket(now, weights.RATES[Sender.CLIENT]))
        terminals = hub.terminals
        link = TerminalLink(peer, bearer, told=None if bearer.job is None else set())
        hub.link_terminal(link)
        if bearer.role is Role.WATCHER:
            terminals.watchers[peer.number] = None
        elif len(terminals.links) > hub.capacity.clients and terminals.watchers:
            why = "the broker is full, and a terminal that may type came"
            departures.give_way(hub, next(reversed(terminals.watchers)), why)
        return FromTerminal(hub, peer, link)


class _Receiver:
    """Receiver of the messages of one connection, for a hub."""

    __slots__ = ("_hub", "_peer")

    sender: Sender

    def __init__(self, hub: Hub, peer: Peer) -> None:
        self._hub, self._peer = hub, peer

    def received_text(self, text: str) -> None:
        """Take a control message: refuse it, or hand it to its function."""
        weight = weights.USUAL[self.sender]
        try:
            weight = self._receive_text(text)
        except UnknownType as error:
            refuse(self._peer, RefusalCode.UNKNOWN_TYPE, error.reason)
        except PeerError as error:
            self._close_bad(error)
        self._peer.charge(len(text) + weight)

    def received_data(self, data: bytes) -> None:
        """Take terminal bytes."""
        try:
            self._receive_data(data)
        except PeerError as error:
            self._close_bad(error)

    def received_control(self) -> None:
        """Charge the peer for a frame that is not a message."""
        self._peer.charge(weights.USUAL[self.sender])

    def lost(self) -> None:
        """Forget the connection."""
        departures.connection_closed(self._hub, self._peer)

    def _receive_text(self, text: str) -> int:
        """Take a message, and return its weight."""
        raise NotImplementedError

    def _receive_data(self, data: bytes) -> None:
        raise NotImplementedError

    def _read(self, text: str) -> Message:
        message = decode(text, self.sender)
        logger.debug("connection %d says %s", self._peer.number, LogForm(message))
        most = weights.MAX_BYTES.get(type(message), MAX_CONTROL_BYTES)
        if len(text) > most:
            raise PeerError(f"{name_of(type(message))} of {len(text)} bytes, above {most}")
        return message

    def _close_bad(self, error: PeerError) -> None:
        logger.info("the connection from %s is closed: %s", self._peer.peer, error)
        refuse(self._peer, RefusalCode.BAD_MESSAGE, error.reason)
        self._peer.close(CloseCode.BAD_MESSAGE, error.reason)


class FromTerminal(_Receiver):
    """Receiver of a terminal's messages."""

    __slots__ = ("_link",)

    sender = Sender.CLIENT

    def __init__(self, hub: Hub, peer: Peer, link: TerminalLink) -> None:
        super().__init__(hub, peer)
        self._link = link

    def drained(self) -> None:
        """Send the terminal what had no room."""
        if self._peer.missed_output():
            self._hub.missed_output(self._link)
        self._hub.terminals.listing.supply(self._link)

    def overflowed(self) -> None:
        """Close the terminal, which does not read."""
        departures.close_slow(self._hub.meters, self._peer)

    def _receive_text(self, text: str) -> int:
        message = self._read(text)
        from_terminals.receive(self._hub, self._link, message)
        return weights.weight_of(message, self.sender)

    def _receive_data(self, data: bytes) -> None:
        self._peer.charge(len(data) + weights.KEYS)
        from_terminals.receive_input(self._hub, self._link, data)


class FromRank(_Receiver):
    """Receiver of the messages of a rank, or of its guard."""

    __slots__ = ("_link",)

    sender = Sender.AGENT

    def __init__(self, hub: Hub, peer: Peer, link: RankLink) -> None:
        super().__init__(hub, peer)
        self._link = link

    def drained(self) -> None:
        """Do nothing: a rank asks again for what it needs."""

    def overflowed(self) -> None:
        """Log that the rank does not read."""
        logger.info("the rank at %s does not read; a message to it is dropped", self._peer.peer)

    def _receive_data(self, data: bytes) -> None:
        self._peer.charge(weights.OUTPUT)
        from_ranks.receive_output(self._hub, self._link, data)

    def _receive_text(self, text: str) -> int:
        if from_ranks.keeps_unread(self._hub, self._link, text):
            logger.debug("connection %d says a pulse of %d characters", self._peer.number, len(text))
        else:
            from_ranks.receive(self._hub, self._link, self._read(text))
        return weights.USUAL[self.sender]
