"""The files of the audit log: the present one, and earlier ones with a number, the latest being 1."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from dbg_broker.audit.entries import Entry, What, encode_entry
from dbg_dial.user import user_name

AUDIT_FILE = "audit.jsonl"

MAX_BYTES = 8 * 1024 * 1024
"""Bytes of one file: some forty thousand entries."""

KEPT = 5
"""Earlier files that are kept."""


def append(home: Path, data: bytes, max_bytes: int = MAX_BYTES) -> None:
    """Append whole lines in one write, so that lines of two processes do not mix. Raise OSError, with nothing appended.

    A file that has grown too large becomes the latest earlier one, and the oldest of those is removed.
    """
    path = home / AUDIT_FILE
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _write_all(descriptor, data)
        size = os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    if size >= max_bytes:
        _rotate(path)


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
