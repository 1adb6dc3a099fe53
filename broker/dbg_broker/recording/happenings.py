"""What the event loop tells the writing thread of a recorded stop. Pure values; ``at`` is in monotonic seconds."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from dbg_wire.messages import PromptInfo

OUTPUT_HEADER = struct.Struct(">BIQ")


@dataclass(frozen=True, slots=True)
class Seen:
    """The debugger and its screen as the rank reports them now."""

    at: float
    session: int
    engine: str
    rows: int
    columns: int
    prompt: PromptInfo | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A frame of terminal bytes, as the rank has sent it."""

    at: float
    frame: bytes

    @property
    def size(self) -> int:
        """Return how many bytes of output it has."""
        return max(0, len(self.frame) - OUTPUT_HEADER.size)

    def place(self) -> tuple[int, int]:
        """Return the session's number and the place of the output in it, 0 for the beginning."""
        if len(self.frame) < OUTPUT_HEADER.size:
            return 0, 0
        _, session, offset = OUTPUT_HEADER.unpack_from(self.frame)
        return int(session), int(offset)


@dataclass(frozen=True, slots=True)
class Typed:
    """Keys of the driver."""

    at: float
    keys: bytes


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence about the stop, such as who types now."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Missing:
    """So many bytes of output could not be kept."""

    at: float
    count: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The process has ended with this status, None if it is unknown."""

    at: float
    status: int | None


Happening = Seen | Shown | Typed | Said | Missing | Ended
