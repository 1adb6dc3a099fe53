"""Backlog: the bounded queue of frames for one peer.

Pure: frames are bytes that the caller hands to its transport as the transport takes them. ``held`` is the number of
bytes that the transport itself still holds; they count against the bound.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import NamedTuple, Protocol

from dbg_wire import limits

FRAME_COST = 120
"""Bytes of memory that a frame takes beside its own bytes; without them the bound would not hold for tiny frames."""

TRANSPORT_SLACK = 128 * limits.KIB
"""Bytes that TLS and its transport may hold beside what they report: a record each, and a large frame."""

OUTBOX_BYTES = min(limits.MAX_VIEWER_BACKLOG, limits.MAX_AGENT_BACKLOG) - TRANSPORT_SLACK
"""Bytes that may wait for one peer, a rank or a terminal."""


class Fate(enum.Enum):
    """What became of a frame."""

    QUEUED = "queued"
    DROPPED = "dropped"
    OVERFLOW = "overflow"
    """A control message has no room: a terminal is closed then, and a rank misses the message."""


class _Waiting(NamedTuple):
    frame: bytes
    is_output: bool


class Outbox:
    """The frames that wait for one peer, in order, at most ``bound`` bytes of them.

    Terminal output beyond the bound is dropped whole, with all output that waits: the screen is drawn anew after the
    gap, so older output is of no use. No further output is taken until everything has gone out. Then :meth:`missed`
    says once that a repaint is due. Control messages are never dropped.
    """

    __slots__ = (
        "_accepted",
        "_accepted_at",
        "_bound",
        "_bytes",
        "_outputs",
        "_serial",
        "_skips",
        "_taken",
        "_waiting",
        "dropped",
    )

    def __init__(self, bound: int, now: float) -> None:
        self._bound = bound
        self._waiting: OrderedDict[Hashable, _Waiting] = OrderedDict()
        self._bytes = 0
        self._outputs = 0
        self._taken = 0
        self._serial = 0
        self._skips = False
        self._accepted = 0
        self._accepted_at = now
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting(self) -> int:
        """Return the bytes that wait here, each frame's own cost included."""
        return self._bytes

    @property
    def is_skipping(self) -> bool:
        """Tell whether output is dropped until a repaint is due."""
        return self._skips

    def passed(self, size: int) -> None:
        """Note that a frame went to the transport without waiting here."""
        self._taken += size

    def has_room(self, size: int, held: int) -> bool:
        """Tell whether a frame of ``size`` bytes fits."""
        return held + self._bytes + size + FRAME_COST <= self._bound

    def offer_output(self, frame: bytes, held: int, most: int | None = None) -> Fate:
        """Queue terminal output, or drop it if the peer is behind, by the bound or by ``most`` bytes that wait."""
        if self._skips:
            self.dropped += 1
            return Fate.DROPPED
        is_late = most is not None and self._bytes + len(frame) > most
        if is_late or not self.has_room(len(frame), held):
            self._skips = True
            self._drop_output()
            self.dropped += 1
            return Fate.DROPPED
        self._put(frame, None, True)
        return Fate.QUEUED

    def offer_control(self, frame: bytes, held: int, instead_of: Hashable = None) -> Fate:
        """Queue a control message; it takes the place of a waiting one with the same name ``instead_of``.

        The new message goes to the end of the queue, as it tells the latest state.
        """
        if instead_of is not None and (old := self._waiting.pop(instead_of, None)) is not None:
            self._bytes -= len(old.frame) + FRAME_COST
        if not self.has_room(len(frame), held):
            self._skips = True
            self._drop_output()
            if not self.has_room(len(frame), held):
                return Fate.OVERFLOW
        self._put(frame, instead_of, False)
        return Fate.QUEUED

    def pop(self) -> bytes | None:
        """Return the next frame for the transport, or None."""
        if not self._waiting:
            return None
        _, (frame, is_output) = self._waiting.popitem(last=False)
        self._outputs -= is_output
        self._bytes -= len(frame) + FRAME_COST
        self._taken += len(frame)
        return frame

    def missed(self) -> bool:
        """Tell, once and as soon as nothing waits, that output was dropped and the peer is ready for a repaint."""
        if not self._skips or self._waiting:
            return False
        self._skips = False
        return True

    def clear(self) -> None:
        """Forget all that waits."""
        self._waiting.clear()
        self._bytes = self._outputs = 0

    def is_stalled(self, held: int, now: float, seconds: float) -> bool:
        """Tell whether things have waited for ``seconds`` without the peer taking a single byte."""
        accepted = self._taken - held
        if accepted != self._accepted or (held == 0 and not self._waiting):
            self._accepted, self._accepted_at = accepted, now
            return False
        return now - self._accepted_at >= seconds

    def _put(self, frame: bytes, name: Hashable, is_output: bool) -> None:
        self._serial += 1
        self._waiting[self._serial if name is None else name] = _Waiting(frame, is_output)
        self._outputs += is_output
        self._bytes += len(frame) + FRAME_COST

    def _drop_output(self) -> None:
        if not self._outputs:
            # A search through the queue at each message without room would be too slow.
            return
        kept = [(name, waiting) for name, waiting in self._waiting.items() if not waiting.is_output]
        self.dropped += len(self._waiting) - len(kept)
        self._waiting = OrderedDict(kept)
        self._bytes = sum(len(waiting.frame) + FRAME_COST for _, waiting in kept)
        self._outputs = 0


class FrameTransport(Protocol):
    """What takes frames and pauses whoever hands them over: a socket, or the credit window of a leg."""

    @property
    def buffered(self) -> int:
        """Return how many bytes it holds."""

    @property
    def is_closing(self) -> bool:
        """Tell whether it takes nothing any more."""

    def write(self, data: bytes) -> None:
        """Take bytes."""


class OutgoingFrames:
    """The frames to one transport, kept in an outbox while it is paused."""

    __slots__ = ("_outbox", "is_paused", "transport")

    def __init__(self, now: float) -> None:
        self.transport: FrameTransport | None = None
        self.is_paused = False
        self._outbox = Outbox(OUTBOX_BYTES, now)

    @property
    def is_free(self) -> bool:
        """Tell whether a frame sent now would not wait."""
        return not self.is_paused and not self._outbox

    @property
    def held(self) -> int:
        """Return how many bytes the transport holds."""
        return self.transport.buffered if self.transport else 0

    @property
    def waiting_bytes(self) -> int:
        """Return how many bytes wait for the peer, in the outbox and in the transport."""
        return self._outbox.waiting + self.held

    def has_room(self, size: int) -> bool:
        """Tell whether a frame of ``size`` bytes could wait."""
        return self._outbox.has_room(size, self.held)

    def send_control(self, frame: bytes, instead_of: Hashable = None) -> bool:
        """Send a control message, or let it wait; it replaces a waiting one of the same name. False without room."""
        if self.is_free:
            self._pass(frame)
            return True
        return self._outbox.offer_control(frame, self.held, instead_of) is not Fate.OVERFLOW

    def send_output(self, frame: bytes, most: int | None = None) -> bool:
        """Send terminal output, or let it wait beside no more than ``most`` bytes; False if it was dropped."""
        if self.is_free and not self._outbox.is_skipping:
            self._pass(frame)
            return True
        return self._outbox.offer_output(frame, self.held, most) is Fate.QUEUED

    def write(self, data: bytes) -> None:
        """Write bytes past all that waits."""
        if self.transport is not None:
            self.transport.write(data)

    def write_to_end(self, pieces: Iterable[bytes]) -> bool:
        """Write the library's own frames past all that waits; tell whether an empty piece now ends the output.

        The library ends its output again when more bytes come.
        """
        if self.transport is None or self.transport.is_closing:
            return False
        whole = list(pieces)
        is_end = b"" in whole
        # A flood of pings is answered by one write.
        if data := b"".join(whole[: whole.index(b"")] if is_end else whole):
            self.write(data)
        return is_end

    def pump(self) -> None:
        """Write what waits for as long as the transport takes it."""
        while not self.is_paused and (frame := self._outbox.pop()) is not None:
            self.write(frame)

    def flush(self) -> None:
        """Write all that waits."""
        while (frame := self._outbox.pop()) is not None:
            self.write(frame)

    def clear(self) -> None:
        """Forget all that waits."""
        self._outbox.clear()

    def missed(self) -> bool:
        """Tell, once and as soon as nothing waits, that output was dropped and the peer is ready for a repaint."""
        return self._outbox.missed()

    def is_stalled(self, now: float, seconds: float) -> bool:
        """Tell whether the peer has taken nothing for ``seconds`` although things wait."""
        return self._outbox.is_stalled(self.held, now, seconds)

    def _pass(self, frame: bytes) -> None:
        self._outbox.passed(len(frame))
        self.write(frame)
