"""WebSocket frames as a server sends them."""

from __future__ import annotations

import struct

from websockets.frames import Opcode

from dbg_wire.codec import encode
from dbg_wire.messages import Message


def pack(opcode: Opcode, payload: bytes) -> bytes:
    """Return a server's frame; made once, it goes to any number of peers."""
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", 0x80 | opcode, size) + payload
    if size < 65536:
        return struct.pack("!BBH", 0x80 | opcode, 126, size) + payload
    return struct.pack("!BBQ", 0x80 | opcode, 127, size) + payload


def pack_message(message: Message) -> bytes:
    """Return the frame of a control message."""
    return pack(Opcode.TEXT, encode(message).encode())


def pack_data(payload: bytes) -> bytes:
    """Return the frame of terminal bytes."""
    return pack(Opcode.BINARY, payload)
