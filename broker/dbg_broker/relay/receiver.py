"""Receivers of the messages of one connection: each message is read, counted, and given to whose message it is."""

from __future__ import annotations

import logging
from typing import ClassVar

from dbg_broker.net.peer import Peer
from dbg_broker.net.websocket import CloseCode
from dbg_broker.relay.relay import refuse
from dbg_wire.codec import LogForm, UnknownType, decode
from dbg_wire.errors import PeerError
from dbg_wire.limits import MAX_CONTROL_BYTES
from dbg_wire.messages import Message, RefusalCode, Sender, weights
from dbg_wire.records.record import name_of

logger = logging.getLogger("dbg_broker")


class Receiver:
    """Receiver of one connection; those of ranks and of terminals say what is done with a message."""

    __slots__ = ("peer",)

    sender: ClassVar[Sender]

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def received_text(self, text: str) -> None:
        """Take a control message; one that is wrong is refused, or ends the connection."""
        weight = weights.USUAL[self.sender]
        try:
            if self.keeps_unread(text):
                logger.debug("connection %d says a pulse of %d characters", self.peer.number, len(text))
            else:
                message = decode(text, self.sender)
                logger.debug("connection %d says %s", self.peer.number, LogForm(message))
                most = weights.MAX_BYTES.get(type(message), MAX_CONTROL_BYTES)
                if len(text) > most:
                    raise PeerError(f"{name_of(type(message))} of {len(text)} bytes, above {most}")
                weight = weights.weight_of(message, self.sender)
                self.receive(message)
        except UnknownType as error:
            refuse(self.peer, RefusalCode.UNKNOWN_TYPE, error.reason)
        except PeerError as error:
            self._close_bad(error)
        self.peer.charge(len(text) + weight)

    def received_data(self, data: bytes) -> None:
        """Take terminal bytes; wrong ones end the connection."""
        try:
            self.receive_data(data)
        except PeerError as error:
            self._close_bad(error)

    def received_control(self) -> None:
        """Charge the peer for a frame that is no message, and costs as much as one."""
        self.peer.charge(weights.USUAL[self.sender])

    def keeps_unread(self, _text: str) -> bool:
        """Keep a message as it came, if that is all that is to be done with it now; tell whether it was."""
        return False

    def receive(self, message: Message) -> None:
        """Do what a message asks. Raise PeerError if it breaks the protocol."""
        raise NotImplementedError

    def receive_data(self, data: bytes) -> None:
        """Pass terminal bytes on. Raise PeerError if they break the protocol."""
        raise NotImplementedError

    def _close_bad(self, error: PeerError) -> None:
        logger.info("the connection from %s is closed: %s", self.peer.peer, error)
        refuse(self.peer, RefusalCode.BAD_MESSAGE, error.reason)
        self.peer.close(CloseCode.BAD_MESSAGE, error.reason)
