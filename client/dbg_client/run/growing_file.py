"""Reading of a file while another process appends to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

from dbg_dial.growth import watch_growth

READ_BYTES = 64 * 1024
"""Bytes of one read: between two of them the event loop looks at what else has happened."""

LOOK_SECONDS = 0.2
"""Seconds between two looks where the kernel tells nothing: its watches are used up, or it has none."""


class GrowingFile:
    """Call ``take`` with what is in a file and what is appended to it, while it is started.

    Belongs to the event loop's thread. Nothing is read twice or left out, however often it is started and stopped.
    """

    def __init__(self, path: str, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._loop = asyncio.get_running_loop()
        self._watch = watch_growth(path)
        self._next: asyncio.Handle | None = None
        self._started = False

    @property
    def behind(self) -> int:
        """Return how many bytes are in the file that were not read."""
        return max(0, os.fstat(self._file).st_size - os.lseek(self._file, 0, os.SEEK_CUR))

    def skip(self, count: int) -> None:
        """Leave out the next ``count`` bytes."""
        os.lseek(self._file, count, os.SEEK_CUR)

    def start(self) -> None:
        """Read what is there, and then what is appended."""
        if self._started:
            return
        self._started = True
        if self._watch is not None:
            self._loop.add_reader(self._watch, self._grown)
        self._read()

    def stop(self) -> None:
        """Read nothing more until it is started again."""
        self._started = False
        if self._watch is not None:
            self._loop.remove_reader(self._watch)
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def read_rest(self) -> None:
        """Read what is there, all of it at once."""
        while data := os.read(self._file, READ_BYTES):
            self._take(data)

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        os.close(self._file)
        if self._watch is not None:
            os.close(self._watch)

    def _grown(self) -> None:
        if self._watch is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._watch, 4096)
        if self._next is None:
            self._read()

    def _read(self) -> None:
        self._next = None
        data = os.read(self._file, READ_BYTES)
        if data:
            self._take(data)
            self._next = self._loop.call_soon(self._read) if self._started else None
        elif self._watch is None:
            self._next = self._loop.call_later(LOOK_SECONDS, self._read)
