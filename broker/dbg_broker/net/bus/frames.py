"""Frames of the bus: sequence numbers that show a gap, and long messages cut and joined again. Pure.

NATS delivers at most once. The frames from one broker to another are numbered, so that the receiver knows at the next
frame whether one is missing; a beat has the number of the last frame and no content.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator

from dbg_wire import limits

MAX_MESSAGE_BYTES = 4 * limits.MIB
"""Bytes of one message: four times what a page of answers takes."""

_HEADER = struct.Struct(">BQ")

HEADER_BYTES = _HEADER.size


class _Part(enum.IntFlag):
    """What a frame is of its message."""

    FIRST = 1
    LAST = 2
    BEAT = 4


_WHOLE = _Part.FIRST | _Part.LAST


class Sending:
    """The frames to one broker; ``most`` is how many bytes one may have."""

    def __init__(self, most: int) -> None:
        self._most = most - HEADER_BYTES
        self._number = 0

    def frames(self, payload: bytes) -> Iterator[bytes]:
        """Yield a message's frames, each with a number of its own. Raise ValueError if the message is too long."""
        if len(payload) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {len(payload)} bytes, above {MAX_MESSAGE_BYTES}")
        if len(payload) <= self._most:
            yield self._frame(_WHOLE, payload)
            return
        for at in range(0, len(payload), self._most):
            is_last = at + self._most >= len(payload)
            part = (_Part(0) if at else _Part.FIRST) | (_Part.LAST if is_last else _Part(0))
            yield self._frame(part, payload[at : at + self._most])

    def beat(self) -> bytes:
        """Return a frame that tells the number of the last one."""
        return _HEADER.pack(_Part.BEAT, self._number)

    def _frame(self, part: _Part, data: bytes) -> bytes:
        self._number += 1
        return _HEADER.pack(part, self._number) + data


class Receiving:
    """The frames from one broker, which come in their order or not at all."""

    def __init__(self) -> None:
        self._number = 0
        self._parts: list[bytes] = []
        self._size = 0
        self.is_behind = False
        """Whether the frame taken last has shown that one before it is missing."""

    def take(self, frame: bytes) -> bytes | None:
        """Return the message that a frame completes, None if it completes none."""
        if len(frame) < HEADER_BYTES:
            self.is_behind = True
            return None
        part, number = _HEADER.unpack_from(frame)
        expected = self._number + (0 if part & _Part.BEAT else 1)
        self.is_behind = number != expected
        self._number = number
        if self.is_behind:
            self._drop()
        if part & _Part.BEAT:
            return None
        if part & _WHOLE == _WHOLE:
            self._drop()
            return frame[HEADER_BYTES:]
        return self._join(part, frame[HEADER_BYTES:])

    def _join(self, part: int, data: bytes) -> bytes | None:
        if part & _Part.FIRST:
            self._drop()
        elif not self._parts:
            # The begin of this message is missing, and that has been told.
            return None
        self._parts.append(data)
        self._size += len(data)
        if self._size > MAX_MESSAGE_BYTES:
            self.is_behind = True
            self._drop()
            return None
        if not part & _Part.LAST:
            return None
        joined = b"".join(self._parts)
        self._drop()
        return joined

    def _drop(self) -> None:
        self._parts, self._size = [], 0
