"""The writing of the audit log, in a thread of its own: a full or slow disk makes nobody wait.

Entries wait in a queue with a bound. Beyond it, and while nothing can be written, they are lost and counted; the count
is an entry itself as soon as one can be written again. Each token has a share of the log's bounded bytes: without it
the holder of one token could do something, and then drive the entry of it out by a flood of others.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from dbg_broker.audit.entries import Entry, What, encode_entry
from dbg_broker.audit.files import append
from dbg_broker.quotas import LruMap, TokenBucket

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


SHARE_BYTES = 1024 * 1024
"""Bytes of one token that are written at once: some five thousand entries, hours of work in a debugger."""

SHARE_BYTES_PER_SECOND = 1024
"""Bytes of one token a second after that: every key of a typist, with --audit-input. 48 MiB, all that the log keeps,
last for half a day of a flood."""

TELL_SECONDS = 60.0
"""Seconds after which an entry tells how many of a token were left out."""

MAX_TOKENS = 2048
"""Tokens that are told apart: twice as many as a home may have made, so that none of them is forgotten."""

Key = tuple[str, str]
"""Role and name of a token; requests that were refused have a share together."""


class Shares:
    """What passes entries to the log while their token has a share left, and counts the others."""

    def __init__(
        self,
        write: Callable[[Entry], None],
        *,
        clock: Callable[[], float],
        schedule: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """Pass entries on to ``write``; ``clock`` is monotonic seconds, ``schedule`` calls after some of them."""
        self._write = write
        self._clock = clock
        self._schedule = schedule
        self._buckets: LruMap[Key, TokenBucket] = LruMap(MAX_TOKENS)
        self._left_out: Counter[Key] = Counter()
        self.lost = 0
        """How many entries have been left out since the start."""

    def note(self, entry: Entry) -> None:
        """Write an entry, or count it; the count becomes an entry after TELL_SECONDS."""
        key = _key_of(entry)
        if key is None or self._spend(key, len(encode_entry(entry))):
            self._write(entry)
            return
        if not self._left_out:
            self._schedule(TELL_SECONDS, self.tell)
        count = max(1, entry.count)
        self._left_out[key] += count
        self.lost += count

    def tell(self) -> None:
        """Write how many entries of each token were left out since this was told."""
        told, self._left_out = self._left_out, Counter()
        for (role, token), count in told.items():
            text = "too many at once"
            self._write(Entry(at=time.time(), what=What.CUT, role=role, token=token, text=text, count=count))

    def _spend(self, key: Key, size: int) -> bool:
        now = self._clock()
        bucket = self._buckets.use(key, lambda: TokenBucket(now, SHARE_BYTES_PER_SECOND, SHARE_BYTES))
        return bucket.take(size, now)


def _key_of(entry: Entry) -> Key | None:
    """Return whose share an entry takes; None for those of the broker and of the commands of its user."""
    if entry.what is What.REFUSE:
        return "", ""
    return (entry.role, entry.token) if entry.role else None
