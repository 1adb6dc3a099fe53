"""Relay: what passes between a rank and the terminals that sit there.

It knows ranks by their keys and terminals by their numbers, and nothing else of either. Nothing here blocks: a frame
that a peer can't take is queued or dropped.
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
"""Bytes of a rank's queue that input leaves free, so that control messages have room even if the rank doesn't read."""


class RankPeer(Protocol):
    """The other end of a rank's link: its agent's connection, or what stands in for an agent."""

    number: int
    peer: str

    def send_message(self, message: Message, instead_of: Hashable = None) -> bool:
        """Send a control message, or let it wait its turn; it replaces a waiting one of the same name.

        Return False if it had no room.
        """

    def send_packed(self, message: Message, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a message of which ``frame`` is the form on the wire, as :meth:`send_message` does."""

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a control message that many ranks are sent, as :meth:`send_message` does."""

    @property
    def is_ready(self) -> bool:
        """Tell whether a frame sent now would not wait."""

    def send_data(self, data: bytes, reserve: int) -> bool:
        """Send a frame of keys unless less than ``reserve`` bytes of room would be left; tell whether it was taken."""

    def close(self, code: int, reason: str, *, flush: bool = True) -> None:
        """Close with a code and a sentence."""

    def abort(self) -> None:
        """End the connection at once."""

    def seconds_since_ack(self) -> float:
        """Return for how long the peer's kernel has said nothing; 0 if that can't be told."""


class Relay:
    """The connections of ranks by their keys, those of terminals by their numbers, and who sits where."""

    def __init__(self, meters: Meters) -> None:
        self.seats = Seats()
        self.ranks: dict[str, RankPeer] = {}
        self.terminals: dict[int, Peer] = {}
        self._meters = meters

    # ------------------------------------------------------------------------------------------------------ to a rank

    def send(self, key: str, message: Message, instead_of: Hashable = None) -> bool:
        """Send a message to a rank, if it is connected; return False if a connected rank has no room for it."""
        peer = self.ranks.get(key)
        return peer is None or peer.send_message(message, instead_of)

    def keys(self, key: str, frame: bytes, size: int) -> bool:
        """Pass a frame with so many bytes of keys on to a rank; return False if a connected rank has no room for it.

        A lost rank may come back: the terminal keeps keys that aren't settled, and its new seat tells it what to do.
        """
        peer = self.ranks.get(key)
        if peer is None:
            return True
        self._meters.key_waits.key_is_passed_on()
        if not peer.send_data(frame, CONTROL_RESERVE):
            return False
        self._meters.bytes_to_ranks += size
        return True

    # --------------------------------------------------------------------------------------------- to terminals at it

    def tell(self, key: str, message: Message, instead_of: Hashable = None) -> None:
        """Send a message to all terminals at a rank."""
        numbers = self.seats.viewers(key)
        if numbers:
            frame = pack_message(message)
            for number in numbers:
                self.terminals[number].send_control(frame, instead_of)

    def output(self, key: str, data: bytes, most: int | None) -> None:
        """Pass a frame of terminal bytes to all terminals at a rank, unread.

        A terminal that is behind, by the bound of its outbox or by ``most`` bytes, misses it.
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
    """Tell a peer which request can't be done and why; a peer that reads no refusals is closed."""
    if not peer.send_message(Refusal(code=code, text=printable(text, 500), request=request)):
        peer.close(CloseCode.SLOW, "it does not read why its requests are refused", flush=False)
