"""WebSocket frames as a server sends them, and sums of incomplete messages."""

from __future__ import annotations

import enum
import struct

from websockets.frames import Opcode

from dbg_broker.quotas import ByteBudget
from dbg_dial import waiting
from dbg_wire import limits
from dbg_wire.codec import encode
from dbg_wire.messages import Message

PIECE_BYTES = 2 * limits.KIB
"""Bytes that are taken apart at once: 100 short messages or 300 pings, between which the clock is looked at."""

MESSAGE_SECONDS = 60.0
"""Seconds that one message may take to come: a mebibyte, the largest there is, takes 33 at 256 kbit/s."""

MAX_UNFINISHED_BYTES = 64 * limits.MIB
"""Bytes of all these messages together: a thousand ranks that answer with a screen at the same time send 10 MiB."""


class CloseCode(enum.IntEnum):
    """The codes with which the broker closes a WebSocket; those from 4000 on are the broker's own."""

    DONE = 1000
    """The connection is not needed any more."""
    SHUTDOWN = waiting.SHUTDOWN
    """The broker ends."""
    BAD_MESSAGE = 1002
    """The peer broke the protocol."""
    REPLACED = 4000
    """A newer connection of the same rank took over."""
    SLOW = 4001
    """The peer does not keep up."""
    GIVES_WAY = 4002
    """Another terminal needs the place."""
    REVOKED = 4003
    """The token was revoked, was replaced, or has expired."""


def pack(opcode: Opcode, payload: bytes) -> bytes:
    """Return a server's frame; the same frame can go to any number of peers."""
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", 0x80 | opcode, size) + payload
    if size < 65536:
        return struct.pack("!BBH", 0x80 | opcode, 126, size) + payload
    return struct.pack("!BBQ", 0x80 | opcode, 127, size) + payload


PING = pack(Opcode.PING, b"")
"""A question whether the peer is there."""


def pack_message(message: Message) -> bytes:
    """Return the frame of a control message."""
    return pack_text(encode(message).encode())


def pack_text(payload: bytes) -> bytes:
    """Return the frame of a control message that is a text already."""
    return pack(Opcode.TEXT, payload)


def pack_data(payload: bytes) -> bytes:
    """Return the frame of terminal bytes."""
    return pack(Opcode.BINARY, payload)


class Unfinished(ByteBudget[int]):
    """Byte budget of connections: what is kept of each, in the order in which the messages began."""

    def __init__(self) -> None:
        super().__init__(MAX_UNFINISHED_BYTES)
        self._begun: dict[int, float] = {}

    def note(self, number: int, size: int, now: float, *, is_new: bool) -> None:
        """Note what is kept for a connection now, 0 for nothing; ``is_new`` if a message was completed since."""
        if is_new or not size:
            self.drop(number)
        if size:
            self._begun.setdefault(number, now)
            self.add(number, size - self.of(number))

    def drop(self, holder: int) -> None:
        """Forget a connection; an unknown number is no error."""
        self._begun.pop(holder, None)
        super().drop(holder)

    def overdue(self, now: float) -> list[int]:
        """Return the connections whose messages take too long."""
        numbers = []
        for number, at in self._begun.items():
            if now - at < MESSAGE_SECONDS:
                break
            numbers.append(number)
        return numbers
