"""What comes on one WebSocket: frames, and the messages that they make. The library reads what is no short frame."""

from __future__ import annotations

import logging

from websockets.frames import Frame, Opcode, apply_mask  # type: ignore[attr-defined] # the one in C, where there is one
from websockets.protocol import State
from websockets.server import ServerProtocol

from dbg_wire import limits

# The library logs much about the bytes of strangers; the broker logs what matters, in one line.
_library_logger = logging.getLogger("dbg_broker.websockets")
_library_logger.setLevel(logging.CRITICAL + 1)

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
    """An open WebSocket's incoming side; ``frames`` have been read and are still to be taken, the next one last."""

    __slots__ = ("_fragments", "_had_part", "_has_finished", "frames", "protocol")

    def __init__(self) -> None:
        self.protocol = ServerProtocol(state=State.OPEN, max_size=limits.MAX_FRAME_BYTES, logger=_library_logger)
        self.frames: list[Frame] = []
        self._fragments = Fragments()
        self._has_finished = False
        self._had_part = False

    @property
    def is_open(self) -> bool:
        """Tell whether neither end has closed it."""
        return self.protocol.state is State.OPEN

    def receive(self, data: bytes) -> bool:
        """Take bytes apart, and tell whether frames have come."""
        frame = self._whole_frame(data)
        if frame is not None:
            self.frames = [frame]
            return True
        self.protocol.receive_data(data)
        self.frames = [event for event in self.protocol.events_received() if isinstance(event, Frame)]
        self.frames.reverse()
        return bool(self.frames)

    def message(self, frame: Frame) -> tuple[Opcode, bytes] | None:
        """Take a frame, and return the message that it completes, if it does."""
        whole = self._fragments.add(frame)
        if whole is not None:
            self._has_finished = True
        return whole

    def unfinished(self) -> tuple[int, bool] | None:
        """Return how many bytes are kept of an incomplete message, and whether one was completed since the last call.

        Return None if nothing is and was kept.
        """
        size = len(self.protocol.reader.buffer) + len(self._fragments)
        is_new, self._has_finished = self._has_finished, False
        if not size and not self._had_part:
            return None
        self._had_part = size > 0
        return size, is_new

    def forget(self) -> None:
        """Forget what has come: the library's objects refer to one another, and would stay until garbage collection."""
        self.frames.clear()
        self._fragments.clear()
        self.protocol.reader.buffer.clear()
        self.protocol.parser.close()

    def _whole_frame(self, data: bytes) -> Frame | None:
        """Return the frame that these bytes are, if the library has nothing to add: it holds none, nor part of one."""
        if self._fragments.is_begun or self.protocol.reader.buffer or not self.is_open:
            return None
        return whole_frame(data)
