"""The files of the audit log, and their writing in a thread of its own: a full or slow disk makes nobody wait.

There are the present file and earlier ones with a number, the latest being 1. Entries wait in a queue with a bound.
Beyond it, and while nothing can be written, they are lost and counted; the count is an entry itself as soon as one can
be written again. Each token has a quota of the log's bounded bytes, a token bucket: without it the holder of one token
could do something, and then drive the entry of it out by a flood of others.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from dbg_broker.audit.entries import encode_entry
from dbg_broker.quotas import LruMap, TokenBucket
from dbg_broker.timers import Timers
from dbg_dial.kernel import user_name
from dbg_wire.records.audit import Entry, What

AUDIT_FILE = "audit.jsonl"

MAX_BYTES = 8 * 1024 * 1024
"""Bytes of one file: some forty thousand entries."""

KEPT = 5
"""Earlier files that are kept."""

logger = logging.getLogger("dbg_broker")

MAX_WAITING = 10_000
"""Entries that wait to be written: some two MB, and all that a thousand terminals do in a second."""

AT_ONCE = 200
"""Entries that are written together."""

END_SECONDS = 1.0
"""Seconds given to what still waits when the broker ends."""

QUOTA_BYTES = 1024 * 1024
"""Bytes of one token that are written at once: some five thousand entries, hours of work in a debugger."""

QUOTA_BYTES_PER_SECOND = 1024
"""Bytes of one token a second after that: every key of a typist, with --audit-input. 48 MiB, all that the log keeps,
last for half a day of a flood."""

REPORT_SECONDS = 60.0
"""Seconds after which an entry tells how many of a token were left out."""

MAX_TOKENS = 2048
"""Tokens that are told apart: twice as many as a home may have made, so that none of them is forgotten."""

Key = tuple[str, str]
"""Role and name of a token; requests that were refused have a share together."""


def append(home: Path, data: bytes, max_bytes: int = MAX_BYTES) -> None:
    """Append whole lines in one write, so that lines of two processes do not mix. Raise OSError, with nothing appended.

    A file that has grown too large becomes the latest earlier one, and the oldest of those is removed.
    """
    path = home / AUDIT_FILE
    with _locked(path) as descriptor:
        _write_all(descriptor, data)
        if os.fstat(descriptor).st_size >= max_bytes:
            _rotate(path)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open the present file for appending, and keep other processes from writing or rotating it."""
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # A file system without locks is written as it is.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_present(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_present(path: Path, descriptor: int) -> bool:
    """Return whether nobody has rotated the file since it was opened."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def note(home: Path, what: What, *, text: str = "", job: str = "") -> None:
    """Append what a command of this user has done. A full disk is no reason to leave that undone, or done by half."""
    entry = Entry(at=time.time(), what=what, terminal=user_name(), job=job, text=text)
    with contextlib.suppress(OSError):
        append(home, encode_entry(entry))


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, or raise OSError with the file as it was: a disk that gets full takes a part first."""
    written = 0
    try:
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
        raise


def audit_files(home: Path) -> list[Path]:
    """Return the files that there are, the oldest first."""
    return [path for path in (*_earlier(home / AUDIT_FILE)[::-1], home / AUDIT_FILE) if path.exists()]


def _rotate(path: Path) -> None:
    earlier = _earlier(path)
    with contextlib.suppress(FileNotFoundError):
        for older, newer in zip(earlier[::-1], [*earlier[-2::-1], path], strict=True):
            if newer.exists():
                newer.replace(older)


def _earlier(path: Path) -> list[Path]:
    return [path.with_name(f"{path.name}.{number}") for number in range(1, KEPT + 1)]


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


class LogQuota:
    """What passes entries to the log while their token has a share left, and counts the others."""

    def __init__(self, write: Callable[[Entry], None], timers: Timers) -> None:
        """Pass entries on to ``write``."""
        self._write = write
        self._timers = timers
        self._buckets: LruMap[Key, TokenBucket] = LruMap(MAX_TOKENS)
        self._left_out: Counter[Key] = Counter()
        self.lost = 0
        """How many entries have been left out since the start."""

    def note(self, entry: Entry) -> None:
        """Write an entry, or count it; the count becomes an entry after REPORT_SECONDS."""
        key = _key_of(entry)
        if key is None or self._spend(key, len(encode_entry(entry))):
            self._write(entry)
            return
        if not self._left_out:
            self._timers.schedule(REPORT_SECONDS, self.report)
        count = max(1, entry.count)
        self._left_out[key] += count
        self.lost += count

    def report(self) -> None:
        """Write how many entries of each token were left out since this was told."""
        told, self._left_out = self._left_out, Counter()
        for (role, token), count in told.items():
            text = "too many at once"
            self._write(Entry(at=self._timers.wall(), what=What.CUT, role=role, token=token, text=text, count=count))

    def _spend(self, key: Key, size: int) -> bool:
        now = self._timers.clock()
        bucket = self._buckets.use(key, lambda: TokenBucket(now, QUOTA_BYTES_PER_SECOND, QUOTA_BYTES))
        return bucket.try_spend(size, now)


def _key_of(entry: Entry) -> Key | None:
    """Return whose share an entry takes; None for those of the broker and of the commands of its user."""
    if entry.what is What.REFUSE:
        return "", ""
    return (entry.role, entry.token) if entry.role else None
