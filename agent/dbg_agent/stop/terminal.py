"""The screen of the open debugger on its way to the terminals: its size, its audience, its bytes.

The debugger draws into this object and never into a descriptor of the rank, so the program's own terminal, stdin and
stdout are never touched and nothing can block the debugger.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from dbg_wire.codec import Output, encode_data
from dbg_wire.limits import MAX_COLUMNS, MAX_DATA_BYTES, MAX_ROWS, MIN_COLUMNS, MIN_ROWS
from dbg_wire.messages import Audience

DEFAULT_ROWS, DEFAULT_COLUMNS = 24, 80
"""Size of a screen that is drawn before a terminal has told its own size."""


class Terminal:
    """The screen's size and audience; it cuts the written bytes into frames, tagged with session and offset."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send
        self._lock = threading.RLock()
        self.rows, self.columns = DEFAULT_ROWS, DEFAULT_COLUMNS
        self.viewers = 0
        self.engine: str | None = None
        self.fallback_engine: str | None = None
        self._session = 0
        self._offset = 0

    def seat(self, audience: Audience) -> bool:
        """Take over the audience; return whether the size has changed."""
        with self._lock:
            self.viewers = audience.viewers
            self.engine, self.fallback_engine = audience.engine, audience.fallback_engine
            return audience.viewers > 0 and self._resize(audience.rows, audience.columns)

    def resize(self, rows: int, columns: int) -> bool:
        """Use this size, within bounds; return whether it has changed."""
        with self._lock:
            return self._resize(rows, columns)

    def begin(self, session: int) -> None:
        """Count offsets for this session from here on."""
        with self._lock:
            if session != self._session:
                self._session, self._offset = session, 0

    def write(self, data: bytes) -> None:
        """Send screen bytes to the terminals; without a terminal they are only counted, and drawn again later."""
        with self._lock:
            for start in range(0, len(data), MAX_DATA_BYTES):
                piece = data[start : start + MAX_DATA_BYTES]
                if self.viewers:
                    self._send(encode_data(Output(self._session, self._offset, piece)))
                self._offset += len(piece)

    def send_again(self, session: int, offset: int, data: bytes) -> None:
        """Send bytes that were sent before, or dropped; a terminal that has them skips them by their offset."""
        with self._lock:
            if self.viewers and session == self._session:
                self._send(encode_data(Output(session, offset, data)))

    def _resize(self, rows: int, columns: int) -> bool:
        size = (min(max(rows, MIN_ROWS), MAX_ROWS), min(max(columns, MIN_COLUMNS), MAX_COLUMNS))
        if size == (self.rows, self.columns):
            return False
        self.rows, self.columns = size
        return True
