"""Frames to one peer: its transport takes them at once, or they wait in a bounded queue."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable

from dbg_broker.net.outbox import Fate, Outbox
from dbg_wire import limits

TRANSPORT_SLACK = 128 * limits.KIB
"""Bytes that TLS and its transport may hold beside what they report: one frame each, and 64 KiB in asyncio."""

OUTBOX_BYTES = min(limits.MAX_VIEWER_BACKLOG, limits.MAX_AGENT_BACKLOG) - TRANSPORT_SLACK
"""Bytes that may wait for one peer, a rank or a terminal."""


class OutgoingFrames:
    """The frames to one transport, kept in an outbox while it is paused."""

    __slots__ = ("_outbox", "is_paused", "transport")

    def __init__(self, now: float) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_paused = False
        self._outbox = Outbox(OUTBOX_BYTES, now)

    @property
    def is_free(self) -> bool:
        """Tell whether a frame sent now would not wait."""
        return not self.is_paused and not self._outbox

    @property
    def held(self) -> int:
        """Return how many bytes the transport holds."""
        return self.transport.get_write_buffer_size() if self.transport else 0

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
        # asyncio logs a warning when a connection that has failed is written to.
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def write_to_end(self, pieces: Iterable[bytes]) -> bool:
        """Write the library's own frames past all that waits; tell whether an empty piece now ends the output.

        The library ends its output again when more bytes come. The output ends once: after a second close all methods
        of asyncio's TLS transport fail.
        """
        if self.transport is None or self.transport.is_closing():
            return False
        whole = list(pieces)
        is_end = b"" in whole
        # A flood of pings is answered by one write.
        if data := b"".join(whole[: whole.index(b"")] if is_end else whole):
            self.write(data)
        return is_end

    def pump(self) -> None:
        """Write what waits for as long as the transport takes it."""
        while not self.is_paused and (frame := self._outbox.take()) is not None:
            self.write(frame)

    def flush(self) -> None:
        """Write all that waits."""
        while (frame := self._outbox.take()) is not None:
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
