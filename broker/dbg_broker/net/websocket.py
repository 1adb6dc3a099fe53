"""WebSockets: frames as a server sends them, what comes on one, and sums of incomplete messages."""

from __future__ import annotations

import enum
import logging
import struct

from websockets.frames import Frame, Opcode, apply_mask  # type: ignore[attr-defined] # the one in C, where there is one
from websockets.protocol import State
from websockets.server import ServerProtocol

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


def is_data(frame: bytes) -> bool:
    """Tell whether a server's frame holds terminal bytes."""
    return frame[:1] == _DATA


def payload_of(frame: bytes) -> bytes:
    """Return what a server's frame holds."""
    size = frame[1] if len(frame) > 1 else 0
    return frame[4 if size == 126 else 10 if size == 127 else 2 :]


_DATA = bytes([0x80 | Opcode.BINARY])


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


# The library logs much about the bytes of strangers; the broker logs what matters, in one line.
_library_logger = logging.getLogger("dbg_broker.websockets")
_library_logger.setLevel(logging.CRITICAL + 1)

_WHOLE = {0x80 | opcode: opcode for opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.PING, Opcode.PONG)}
_LONGEST_CONTROL = 125


def whole_frames(data: bytes) -> list[Frame] | None:
    """Return the frames if these bytes are nothing but short frames of a client that end a message each, else None.

    Most bytes that come are, and the library takes twice as long for them.
    """
    frames, at = [], 0
    while at < len(data):
        if len(data) < at + 6 or data[at] not in _WHOLE or data[at + 1] < 0x80:
            return None
        opcode, size, begins = _WHOLE[data[at]], data[at + 1] & 0x7F, at + 6
        if size > _LONGEST_CONTROL:
            if size == 127 or opcode in (Opcode.PING, Opcode.PONG):
                return None
            size, begins = int.from_bytes(data[at + 2 : at + 4], "big"), at + 8
        at = begins + size
        if at > len(data):
            return None
        frames.append(Frame(opcode, apply_mask(data[begins:at], data[begins - 4 : begins])))
    return frames


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

    def add(self, frame: Frame) -> tuple[Opcode, bytes] | None:
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


class WebSocket:
    """An open WebSocket's incoming side; ``frames`` have been read and are still to be taken, the next one last.

    The library's objects take as much memory as all else of a connection. They are made for the first bytes that are
    not short frames.
    """

    __slots__ = ("_fragments", "_had_part", "_has_finished", "_library", "_pongs", "frames")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._library: ServerProtocol | None = None
        self._fragments: Fragments | None = None
        self._pongs: list[bytes] = []
        self._has_finished = False
        self._had_part = False

    @property
    def is_open(self) -> bool:
        """Tell whether neither end has closed it."""
        return self._library is None or self._library.state is State.OPEN

    @property
    def breach(self) -> str:
        """Return the name of the peer's breach of the protocol, empty if there was none."""
        error = None if self._library is None else self._library.parser_exc
        return "" if error is None else type(error).__name__

    def receive(self, data: bytes) -> bool:
        """Take bytes apart, and tell whether frames have come."""
        frames = self._whole_frames(data)
        if frames is not None:
            self.frames = frames
            self._pongs += [pack(Opcode.PONG, bytes(ping.data)) for ping in frames if ping.opcode is Opcode.PING]
            frames.reverse()
            return bool(frames)
        library = self._made_library()
        library.receive_data(data)
        self.frames = [event for event in library.events_received() if isinstance(event, Frame)]
        self.frames.reverse()
        return bool(self.frames)

    def receive_eof(self) -> None:
        """Take the end of the peer's bytes."""
        if self._library is not None:
            self._library.receive_eof()

    def message(self, frame: Frame) -> tuple[Opcode, bytes] | None:
        """Take a frame, and return the message that it completes, if it does."""
        if self._fragments is None:
            if frame.fin:
                if frame.opcode not in (Opcode.TEXT, Opcode.BINARY):
                    return None
                self._has_finished = True
                return frame.opcode, bytes(frame.data)
            self._fragments = Fragments()
        whole = self._fragments.add(frame)
        if whole is not None:
            self._has_finished = True
        return whole

    def close(self, code: int, reason: str) -> None:
        """Begin to close; the frame for that is in :meth:`data_to_send`."""
        self._made_library().send_close(code, reason)

    def data_to_send(self) -> list[bytes]:
        """Return what it answers by itself, pongs and closes; an empty piece ends the output."""
        pongs, self._pongs = self._pongs, []
        return pongs if self._library is None else pongs + self._library.data_to_send()

    def unfinished(self) -> tuple[int, bool] | None:
        """Return how many bytes are kept of an incomplete message, and whether one was completed since the last call.

        Return None if nothing is and was kept.
        """
        size = 0 if self._library is None else len(self._library.reader.buffer)
        size += 0 if self._fragments is None else len(self._fragments)
        is_new, self._has_finished = self._has_finished, False
        if not size and not self._had_part:
            return None
        self._had_part = size > 0
        return size, is_new

    def forget(self) -> None:
        """Forget what has come: the library's objects refer to one another, and would stay until garbage collection."""
        self.frames.clear()
        self._fragments = None
        if self._library is not None:
            self._library.reader.buffer.clear()
            self._library.parser.close()
            # Its traceback holds the parser's variables, among them the last frame.
            self._library.parser_exc = None

    def _made_library(self) -> ServerProtocol:
        if self._library is None:
            self._library = ServerProtocol(state=State.OPEN, max_size=limits.MAX_FRAME_BYTES, logger=_library_logger)
        return self._library

    def _whole_frames(self, data: bytes) -> list[Frame] | None:
        """Return the frames that these bytes are, if the library has nothing to add: it holds no part of one."""
        is_amid = self._fragments is not None and self._fragments.is_begun
        is_part = self._library is not None and (bool(self._library.reader.buffer) or not self.is_open)
        return None if is_amid or is_part else whole_frames(data)
