"""WebSocket frames as a server sends them, and messages that come in several frames."""

from __future__ import annotations

import struct

from websockets.frames import Frame, Opcode, apply_mask  # type: ignore[attr-defined] # the one in C, where there is one

from dbg_wire.codec import encode
from dbg_wire.messages import Message


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
