"""The writing of the audit log, in a thread of its own: a full or slow disk makes nobody wait.

Entries wait in a queue with a bound. Beyond it, and while nothing can be written, they are lost and counted; the count
is an entry itself as soon as one can be written again.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dbg_broker.audit.entries import Entry, What, encode_entry
from dbg_broker.audit.files import append

logger = logging.getLogger("dbg_broker")

MAX_WAITING = 10_000
"""Entries that wait to be written: some two MB, and all that a thousand terminals do in a second."""

AT_ONCE = 200
"""Entries that are written together."""

END_SECONDS = 1.0
"""Seconds given to what still waits when the broker ends."""


class AuditLog:
    """The audit log of a home; :meth:`note` may be called from any thread."""

    def __init__(self, home: Path, write: Callable[[Path, bytes], None] = append) -> None:
        """Begin to write; ``write`` appends lines and may block or raise OSError."""
        self._home = home
        self._write = write
        self._waiting: queue.Queue[Entry | None] = queue.Queue(MAX_WAITING)
        self._lock = threading.Lock()
        self._cut = 0
        self.lost = 0
        """How many entries have been lost since the start."""
        self._thread = threading.Thread(target=self._work, name="dbg-broker-audit", daemon=True)
        self._thread.start()

    def note(self, entry: Entry) -> None:
        """Have an entry written; it is lost, and counted, if too many wait."""
        try:
            self._waiting.put_nowait(entry)
        except queue.Full:
            self._lose(1)

    def close(self) -> None:
        """Write what waits, for END_SECONDS at most."""
        try:
            self._waiting.put(None, timeout=END_SECONDS)
        except queue.Full:
            return
        self._thread.join(END_SECONDS)

    def _work(self) -> None:
        is_over = False
        while not is_over:
            entries = [self._waiting.get()]
            while len(entries) < AT_ONCE and not self._waiting.empty():
                entries.append(self._waiting.get_nowait())
            is_over = None in entries
            self._put([entry for entry in entries if entry is not None])

    def _put(self, entries: list[Entry]) -> None:
        with self._lock:
            cut, self._cut = self._cut, 0
        if cut:
            entries = [*entries, Entry(at=time.time(), what=What.CUT, count=cut)]
        if not entries:
            return
        try:
            self._write(self._home, b"".join(map(encode_entry, entries)))
        except OSError as error:
            self._lose(len(entries) - bool(cut))
            if not cut:
                logger.warning("the audit log can't be written (%s); entries are lost until it can", error.strerror)
            with self._lock:
                self._cut += cut

    def _lose(self, count: int) -> None:
        with self._lock:
            self._cut += count
            self.lost += count
