"""WebSocket frames: those that a server sends, bytes that came and are not read yet, and incomplete messages."""

from __future__ import annotations

import enum
import struct

from websockets.frames import Frame, Opcode, apply_mask  # type: ignore[attr-defined] # the one in C, where there is one

from dbg_broker.net.tls import SecureTransport
from dbg_broker.quotas import ByteBudget
from dbg_dial import handover
from dbg_wire import limits
from dbg_wire.codec import encode
from dbg_wire.messages import Message


class CloseCode(enum.IntEnum):
    """The codes with which the broker closes a WebSocket; those from 4000 on are the broker's own."""

    DONE = 1000
    """The connection is not needed any more."""
    SHUTDOWN = handover.SHUTDOWN
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


def pack_message(message: Message) -> bytes:
    """Return the frame of a control message."""
    return pack_text(encode(message).encode())


def pack_text(payload: bytes) -> bytes:
    """Return the frame of a control message that is a text already."""
    return pack(Opcode.TEXT, payload)


def pack_data(payload: bytes) -> bytes:
    """Return the frame of terminal bytes."""
    return pack(Opcode.BINARY, payload)


_WHOLE = {0x80 | Opcode.TEXT: Opcode.TEXT, 0x80 | Opcode.BINARY: Opcode.BINARY}


def whole_frame(data: bytes) -> Frame | None:
    """Return the frame if these bytes are exactly one short frame with a whole message of a client, else None.

    Most bytes that come are, and the library takes twice as long for them.
    """
    if len(data) < 6 or data[0] not in _WHOLE or data[1] < 0x80:
        return None
    size, begins = data[1] & 0x7F, 6
    if size == 126:
        size, begins = int.from_bytes(data[2:4], "big"), 8
    if (size == 127 and begins == 6) or len(data) != begins + size:
        return None
    return Frame(_WHOLE[data[0]], apply_mask(data[begins:], data[begins - 4 : begins]))


class Fragments:
    """The frames of a message that is not complete; the library has checked their order."""

    __slots__ = ("_kept", "_opcode", "is_begun")

    def __init__(self) -> None:
        self._opcode = Opcode.BINARY
        self._kept = bytearray()
        self.is_begun = False
        """Whether further frames of a message are to come."""

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, frame: Frame) -> tuple[Opcode, bytes] | None:
        """Take a frame, and return the message that it completes, if it does."""
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self.is_begun = not frame.fin
            if frame.fin:
                return frame.opcode, bytes(frame.data)
            self._opcode, self._kept = frame.opcode, bytearray(frame.data)
        elif frame.opcode is Opcode.CONT:
            self._kept += frame.data
            if frame.fin:
                self.is_begun = False
                whole, self._kept = bytes(self._kept), bytearray()
                return self._opcode, whole
        return None

    def clear(self) -> None:
        """Forget the frames of a message that is not complete."""
        self._kept.clear()


PIECE_BYTES = 2 * limits.KIB
"""Bytes that are taken apart at once: 100 short messages or 300 pings, between which the clock is looked at."""

UNREAD_BYTES = 64 * limits.KIB
"""Bytes waiting for their turn at which the socket is not read any more."""


class IncomingBytes:
    """The bytes of one connection; nothing is decrypted before it is asked for."""

    __slots__ = ("_secure", "_unread")

    def __init__(self, secure: SecureTransport | None) -> None:
        self._secure = secure
        self._unread = bytearray()

    def __bool__(self) -> bool:
        return bool(self._unread) or (self._secure is not None and not self._secure.is_dry)

    @property
    def is_full(self) -> bool:
        """Tell whether enough waits."""
        return len(self._unread) >= UNREAD_BYTES

    def take(self, data: bytes) -> None:
        """Keep bytes of the socket."""
        self._unread += data

    def piece(self) -> bytes:
        """Return the next bytes that the peer said; with TLS they may be empty. Raise ssl.SSLError."""
        secure = self._secure
        if secure is not None and not secure.is_dry:
            return secure.read(PIECE_BYTES)
        piece = bytes(self._unread[:PIECE_BYTES])
        del self._unread[:PIECE_BYTES]
        if secure is None:
            return piece
        secure.feed(piece)
        return secure.read(PIECE_BYTES)

    def clear(self) -> None:
        """Forget all that waits."""
        self._unread.clear()
        if self._secure is not None:
            self._secure.drop()


MESSAGE_SECONDS = 60.0
"""Seconds that one message may take to come: a mebibyte, the largest there is, takes 33 at 256 kbit/s."""

MAX_UNFINISHED_BYTES = 64 * limits.MIB
"""Bytes of all these messages together: a thousand ranks that answer with a screen at the same time send 10 MiB."""


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
