"""The audit log: the text of its entries, its current file, and its numbered earlier files."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import logging
import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from dbg_command.audit import AuditEntry, AuditEvent
from dbg_command.home import user_name
from dbg_wire.messages import Question
from dbg_wire.rank_set import format_ranks
from dbg_wire.records.inspection import BreakpointChanges, BreakpointSpec, CommandLine, Inspection, InspectionKind

AUDIT_FILE = "audit.jsonl"

MAX_BYTES = 8 * 1024 * 1024
"""Maximum size of one file, in bytes: some forty thousand entries."""

KEPT = 5
"""Maximum number of earlier files that are kept."""

logger = logging.getLogger("dbg_broker")


def append(home: Path, data: bytes, max_bytes: int = MAX_BYTES) -> None:
    """Append whole lines; lines of several processes are never mixed. Raise OSError, with nothing appended.

    If the current file is too large afterwards, it becomes an earlier file, and the oldest file is removed.
    """
    path = home / AUDIT_FILE
    with _locked(path) as descriptor:
        size, rest = os.fstat(descriptor).st_size, data
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            # If the disk has become full, a part of the lines may be written. That part is removed.
            os.ftruncate(descriptor, size)
            raise
        if size + len(data) >= max_bytes:
            names = [path, *_earlier(path)]
            for newer, older in reversed(list(itertools.pairwise(names))):
                with contextlib.suppress(FileNotFoundError):
                    newer.replace(older)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open the current file for appending, and keep other processes from writing or rotating it."""
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # If the file system has no locks, the file is written without one.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_present(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_present(path: Path, descriptor: int) -> bool:
    """Return True if the file has not been rotated since it was opened."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def note(home: Path, what: AuditEvent, *, text: str = "", job: str = "") -> None:
    """Append an action of a user's command. Ignore a full disk, which must not prevent or interrupt the action."""
    entry = AuditEntry(at=time.time(), what=what, terminal=user_name(), job=job, text=text)
    with contextlib.suppress(OSError):
        append(home, encode_entry(entry))


def audit_files(home: Path) -> list[Path]:
    """Return the existing files, the oldest first."""
    return [path for path in (*_earlier(home / AUDIT_FILE)[::-1], home / AUDIT_FILE) if path.exists()]


def _earlier(path: Path) -> list[Path]:
    return [path.with_name(f"{path.name}.{number}") for number in range(1, KEPT + 1)]


class AuditFile:
    """The audit log, as one thread of the broker writes it. The event loop must not wait for a slow disk."""

    def __init__(self, home: Path, write: Callable[[Path, bytes], None] = append) -> None:
        """Set the writer; ``write`` appends lines, and may block or raise OSError."""
        self._home, self._write = home, write
        self._is_failing = False

    def put(self, entries: list[AuditEntry], lost: int) -> bool:
        """Write entries, and the number of entries lost before them. Return False on failure."""
        cut = [AuditEntry(at=time.time(), what=AuditEvent.CUT, count=lost)] if lost else []
        try:
            self._write(self._home, b"".join(map(encode_entry, [*entries, *cut])))
        except OSError as error:
            if not self._is_failing:
                logger.warning("can't write the audit log (%s); entries are lost until it works again", error.strerror)
            self._is_failing = True
            return False
        self._is_failing = False
        return True


MAX_TEXT = 2000
"""Maximum length of a question or another text of an entry, in characters; longer ones, like pasted blocks, are cut."""

_TEXTS = tuple(one.name for one in fields(AuditEntry) if one.name not in ("at", "what", "count"))


def encode_entry(entry: AuditEntry) -> bytes:
    """Return the line of an entry, without empty fields."""
    document: dict[str, object] = {"at": round(entry.at, 3), "what": entry.what.value}
    for name in _TEXTS:
        text = getattr(entry, name)
        if text:
            document[name] = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    if entry.count:
        document["count"] = entry.count
    # A lone surrogate, which a rank's name may contain, is escaped.
    return json.dumps(document).encode() + b"\n"


def shown_ranks(named: Iterable[tuple[int, str]]) -> str:
    """Format ranks of one job, given by number and address: a single rank as its address, several as a rank set."""
    ranks = list(named)
    return ranks[0][1] if len(ranks) == 1 else format_ranks({number for number, _ in ranks})


def text_of(question: Question) -> str:
    """Return the text of a question for the log."""
    asked = question.inquiry
    if isinstance(asked, Inspection):
        return _of_inspection(asked)
    if isinstance(asked, BreakpointChanges):
        return ", ".join(_changes_text(asked))
    return shlex.join(asked.argv) if isinstance(asked, CommandLine) else question.text


def _of_inspection(asked: Inspection) -> str:
    if asked.sight is InspectionKind.ASSIGN:
        return f"{asked.name} = {asked.text}"
    if asked.sight is InspectionKind.VALUE:
        return asked.text
    if asked.sight is InspectionKind.PARTS:
        return f"value {asked.handle}" if asked.handle else asked.scope.value
    return f"{asked.sight.value} {asked.text}".rstrip()


def _changes_text(spec: BreakpointChanges) -> Iterator[str]:
    for line in spec.clear:
        yield f"clear {line.file}:{line.line}"
    for one in spec.set:
        yield f"set {one.file}:{one.line}{_conditions(one)}"


def _conditions(one: BreakpointSpec) -> str:
    return "".join(
        f" {word} {text}" for word, text in (("if", one.condition), ("hits", one.hits), ("log", one.log)) if text
    )
