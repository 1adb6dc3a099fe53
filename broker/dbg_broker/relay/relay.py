"""Relay: traffic between a rank and the terminals that are attached to it.

It identifies ranks by their keys and terminals by their numbers, and knows nothing else about them. No call blocks: a
frame that a peer can't receive is queued or dropped.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from dbg_broker.net.metrics import Meters
from dbg_broker.net.peer import Peer
from dbg_broker.net.websocket import CloseCode, pack_data, pack_message
from dbg_broker.relay.seats import Seats
from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.messages import Message, Refusal

CONTROL_RESERVE = 128 * limits.KIB
"""Bytes of a rank's queue that keys may not use, so that control messages fit even if the rank does not read."""


class RankPeer(Protocol):
    """Peer of a rank's link: its agent's connection, or a substitute for an agent."""

    number: int
    peer: str

    def send_message(self, message: Message, instead_of: Hashable = None) -> bool:
        """Send or queue a control message; ``instead_of`` names a queued message that it replaces.

        Return False if it did not fit.
        """

    def send_packed(self, message: Message, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a message like :meth:`send_message`; ``frame`` is its encoded form."""

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send an encoded control message for many ranks, like :meth:`send_message`."""

    @property
    def is_ready(self) -> bool:
        """Whether a frame can be sent now without waiting."""

    def send_data(self, data: bytes, reserve: int) -> bool:
        """Send a frame of keys. Return False, without sending, if fewer than ``reserve`` free bytes would remain."""

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        """Close the connection with a code and a sentence."""

    def abort(self) -> None:
        """Close the connection at once."""

    def seconds_since_ack(self) -> float:
        """Return the time since the peer's kernel last sent something, in seconds, or 0 if it is unknown."""


class Relay:
    """Connections of ranks by key and of terminals by number, and the terminals' seats."""

    def __init__(self, meters: Meters) -> None:
        self.seats = Seats()
        self.ranks: dict[str, RankPeer] = {}
        self.terminals: dict[int, Peer] = {}
        self._meters = meters

    # -------------------------------------------------------------------------------------------------------- to a rank

    def send(self, key: str, message: Message, instead_of: Hashable = None) -> bool:
        """Send a message to a rank if it is connected. Return False if a connected rank has no room for it."""
        peer = self.ranks.get(key)
        return peer is None or peer.send_message(message, instead_of)

    def keys(self, key: str, frame: bytes, size: int) -> bool:
        """Pass a frame with ``size`` bytes of keys on to a rank. Return False if a connected rank has no room for it.

        For a lost rank the frame is dropped. The terminal keeps unacknowledged keys; if the rank returns, the
        terminal's new seat shows whether to send them again.
        """
        peer = self.ranks.get(key)
        if peer is None:
            return True
        self._meters.key_waits.key_is_passed_on()
        if not peer.send_data(frame, CONTROL_RESERVE):
            return False
        self._meters.bytes_to_ranks += size
        return True

    # ------------------------------------------------------------------------------------------------- to its terminals

    def notify(self, key: str, message: Message, instead_of: Hashable = None) -> None:
        """Send a message to all terminals at a rank."""
        numbers = self.seats.viewers(key)
        if numbers:
            frame = pack_message(message)
            for number in numbers:
                self.terminals[number].send_control(frame, instead_of)

    def output(self, key: str, data: bytes, most: int | None) -> None:
        """Pass a frame of terminal output to all terminals at a rank, undecoded.

        Skip a terminal that is behind: more bytes than ``most``, or than the limit of its outbox, would wait for it.
        """
        self._meters.bytes_from_ranks += len(data)
        numbers = self.seats.viewers(key)
        if not numbers:
            return
        frame = pack_data(data)
        self._meters.key_waits.key_is_passed_on()
        for number in numbers:
            if self.terminals[number].send_output(frame, most):
                self._meters.bytes_to_terminals += len(data)
            else:
                self._meters.dropped_frames += 1


def refuse(peer: RankPeer | Peer, code: str, text: str, request: int | None = None) -> None:
    """Send a refusal with its reason to a peer; close a peer that does not read refusals."""
    if not peer.send_message(Refusal(code=code, text=printable(text, 500), request=request)):
        peer.close(CloseCode.SLOW, "the peer does not read the refusals of its requests", flush=False)
