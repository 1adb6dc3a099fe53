"""WebSockets: frames as a server sends them, and the codes for closing."""

from __future__ import annotations

import enum
import struct

from websockets.frames import Opcode

from dbg_dial import tcp
from dbg_wire.codec import encode
from dbg_wire.messages import Message


class CloseCode(enum.IntEnum):
    """Close codes of the broker's WebSockets; codes from 4000 on are the broker's own."""

    DONE = 1000
    """The connection is not needed any more."""
    SHUTDOWN = tcp.SHUTDOWN
    """The broker shuts down."""
    BAD_MESSAGE = 1002
    """The peer broke the protocol."""
    REPLACED = 4000
    """A newer connection of the same rank took over."""
    SLOW = 4001
    """The peer does not keep up."""
    GIVES_WAY = 4002
    """Another terminal needs the slot."""
    REVOKED = 4003
    """The token was revoked, was replaced, or has expired."""


def pack(opcode: Opcode, payload: bytes) -> bytes:
    """Return a frame as a server sends it. The same frame can be sent to any number of peers."""
    size = len(payload)
    if size < 126:
        return struct.pack("!BB", 0x80 | opcode, size) + payload
    if size < 65536:
        return struct.pack("!BBH", 0x80 | opcode, 126, size) + payload
    return struct.pack("!BBQ", 0x80 | opcode, 127, size) + payload


PING = pack(Opcode.PING, b"")
"""Ping frame, which checks whether the peer is alive."""


def pack_message(message: Message) -> bytes:
    """Return the frame of a control message."""
    return pack(Opcode.TEXT, encode(message).encode())


def pack_data(payload: bytes) -> bytes:
    """Return the frame of terminal input or output."""
    return pack(Opcode.BINARY, payload)
