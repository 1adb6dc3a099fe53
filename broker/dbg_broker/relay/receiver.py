"""Receiver of one connection's messages: decodes each, charges it to the rate limit, and passes it to the owner."""

from __future__ import annotations

import logging
from typing import Generic, Protocol, TypeVar

from dbg_broker.net.peer import Peer
from dbg_broker.net.websocket import CloseCode
from dbg_broker.relay import weights
from dbg_broker.relay.relay import refuse
from dbg_wire.codec import LogForm, UnknownType, decode
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_CONTROL_BYTES
from dbg_wire.messages import Message, RefusalCode, Sender
from dbg_wire.records.record import name_of

logger = logging.getLogger("dbg_broker")

L_contra = TypeVar("L_contra", contravariant=True)


class Owner(Protocol[L_contra]):
    """The ranks or the terminals, which receive the messages of all their links."""

    sender: Sender

    def keeps_unread(self, link: L_contra, text: str) -> bool:
        """Store a message undecoded if nothing else has to be done with it now. Return True if it was stored."""

    def receive(self, link: L_contra, message: Message) -> None:
        """Handle a message. Raise PeerError if it breaks the protocol."""

    def receive_data(self, link: L_contra, data: bytes) -> None:
        """Pass on terminal input or output. Raise PeerError if the frame is invalid."""

    def drained(self, link: L_contra) -> None:
        """Send the data that did not fit before."""

    def overflowed(self, link: L_contra) -> None:
        """Handle a control message that did not fit into the queue."""

    def left(self, link: L_contra) -> None:
        """Forget a connection that has ended."""


class Receiver(Generic[L_contra]):
    """Receiver of the messages of one connection; ``link`` is the owner's record of the connection."""

    __slots__ = ("_link", "_owner", "_peer")

    def __init__(self, peer: Peer, link: L_contra, owner: Owner[L_contra]) -> None:
        self._peer, self._link, self._owner = peer, link, owner

    def received_text(self, text: str) -> None:
        """Handle a control message. An unknown type is refused; an invalid message ends the connection."""
        sender = self._owner.sender
        weight = weights.USUAL[sender]
        try:
            if self._owner.keeps_unread(self._link, text):
                logger.debug("connection %d: received a pulse of %d characters", self._peer.number, len(text))
            else:
                message = decode(text, sender)
                logger.debug("connection %d: received %s", self._peer.number, LogForm(message))
                most = weights.MAX_BYTES.get(type(message), MAX_CONTROL_BYTES)
                if len(text) > most:
                    raise PeerError(f"{name_of(type(message))} of {len(text)} bytes, above {most}")
                weight = weights.weight_of(message, sender)
                self._owner.receive(self._link, message)
        except UnknownType as error:
            refuse(self._peer, RefusalCode.UNKNOWN_TYPE, error.reason)
        except PeerError as error:
            self._close_bad(error)
        self._peer.charge(len(text) + weight)

    def received_data(self, data: bytes) -> None:
        """Handle terminal input or output. An invalid frame ends the connection."""
        self._peer.charge(weights.OUTPUT if self._owner.sender is Sender.AGENT else len(data) + weights.KEYS)
        try:
            self._owner.receive_data(self._link, data)
        except PeerError as error:
            self._close_bad(error)

    def received_control(self) -> None:
        """Charge the peer for a control frame, such as a ping, as much as for a message."""
        self._peer.charge(weights.USUAL[self._owner.sender])

    def drained(self) -> None:
        """Send the data that did not fit before."""
        self._owner.drained(self._link)

    def overflowed(self) -> None:
        """Handle a control message that did not fit into the queue."""
        self._owner.overflowed(self._link)

    def lost(self) -> None:
        """Forget the connection."""
        self._owner.left(self._link)

    def _close_bad(self, error: PeerError) -> None:
        logger.info("connection from %s closed: %s", self._peer.peer, error)
        refuse(self._peer, RefusalCode.BAD_MESSAGE, error.reason)
        self._peer.close(CloseCode.BAD_MESSAGE, error.reason)
