"""A transport that takes one frame at a time, for an outbox whose peer reads slowly."""

from __future__ import annotations

import asyncio

from dbg_broker.net.outbox import Outbox


class SlowTransport(asyncio.WriteTransport):
    """Pause the outbox after each frame that it is given; ``buffered`` is what it says that it holds."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self.buffered = 0
        self._outbox = outbox
        self._taken: list[bytes] = []
        outbox.transport = self
        outbox.is_paused = True

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._taken.append(bytes(data))
        self._outbox.is_paused = True

    def take(self) -> bytes | None:
        self._outbox.is_paused = False
        self._outbox.pump()
        self._outbox.is_paused = True
        return self._taken.pop() if self._taken else None

    def take_all(self) -> list[bytes]:
        return list(iter(self.take, None))
