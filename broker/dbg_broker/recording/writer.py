"""The writing of recordings, in a thread of its own: a full or slow disk makes no terminal wait.

The thread also makes the lines of what happened, so that the event loop spends a few microseconds on a frame. What
can't be written is lost and counted, and the file says so as soon as it can be written again. There is one folder for
each job and one file for each stop. All files together are bounded: the oldest are removed, but never one that is still
written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import re
import secrets
import shlex
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dbg_broker.home.private_files import check_way, make_private_directory
from dbg_broker.recording.stop_cast import About, Happening, Missing, Shown, StopCast
from dbg_wire.errors import BadInput, printable

SUFFIX = ".cast"

MAX_NAME = 80
"""Characters of a job's or an address's part of a name; a file system takes 255 bytes."""

MAX_SAME = 100
"""Files whose names differ in a last number alone: ranks of two jobs with one name, stopped in one second."""

_ANOTHER = "name another directory"

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

logger = logging.getLogger("dbg_broker")

MAX_FILE = 64 * 1024 * 1024
"""Bytes of one file: a working day in PuDB is some ten MB. A rank that draws more must not fill the directory."""

MAX_OPEN = 64
"""Files that are kept open; a write to another one opens it anew."""

END_SECONDS = 1.0
"""Seconds given to what still waits when the broker ends."""

Write = Callable[[int, bytes], int]


def open_directory(path: str) -> Path:
    """Return the directory, made if it isn't there. Raise BadInput if it can't be used, or others could replace it.

    Nothing is made or written before it is known that no other user can have put a link in its place.
    """
    directory, what = Path(path), f"--record {printable(path)}"
    try:
        check_way(directory, what, _ANOTHER)
        make_private_directory(directory)
        check_way(directory, what, _ANOTHER)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
                raise BadInput(
                    f"{what} belongs to another user, or others may write to it",
                    f"{_ANOTHER}, or type `chmod go-w {printable(shlex.quote(path))}`",
                )
            _try_to_write(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BadInput(
            f"{what} can't be written ({error.strerror})", "name a directory of your own, with room on its disk"
        ) from None
    return directory


def _try_to_write(directory: int) -> None:
    name = f".{secrets.token_hex(8)}"
    os.close(
        os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    )
    os.unlink(name, dir_fd=directory)


def file_stem(about: About) -> str:
    """Return the name of a stop's file without its suffix: host, rank, stop and time, in characters that are safe."""
    when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(about.began))
    return f"{safe_name(about.address.replace(':?', '-').replace(':', '-'))}-stop{about.stop}-{when}"


def safe_name(text: str) -> str:
    """Return a text as part of a file's name."""
    return _UNSAFE.sub("_", text)[:MAX_NAME].lstrip(".-") or "_"


class RecordingDirectory:
    """The files of one directory. Belongs to the writing thread; methods raise OSError."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._ended: OrderedDict[Path, int] = OrderedDict()
        self._total = 0
        self._is_known = False
        self.removed = 0
        """How many files were removed to make room."""

    def create(self, about: About) -> tuple[Path, int]:
        """Return the path and the descriptor of a new file for a stop."""
        self._look()
        folder = self._directory / safe_name(about.job)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        folder_descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            stem = file_stem(about)
            for number in range(1, MAX_SAME + 1):
                name = f"{stem}{SUFFIX}" if number == 1 else f"{stem}-{number}{SUFFIX}"
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                with contextlib.suppress(FileExistsError):
                    return folder / name, os.open(name, flags, 0o600, dir_fd=folder_descriptor)
        finally:
            os.close(folder_descriptor)
        raise FileExistsError(f"{MAX_SAME} files of this stop and second are there already")

    def reopen(self, path: Path) -> int:
        """Return a descriptor for a file of this directory that was closed meanwhile."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)

    def grew(self, size: int) -> None:
        """Count bytes that were written, and remove the oldest ended files if all are too large now."""
        self._total += size
        while self._total > self._max_bytes and self._ended:
            path, freed = self._ended.popitem(last=False)
            self._total -= freed
            self.removed += 1
            with contextlib.suppress(OSError):
                path.unlink()
            with contextlib.suppress(OSError):
                path.parent.rmdir()

    def ended(self, path: Path, size: int) -> None:
        """Note that a file is complete, and may be removed to make room."""
        self._ended[path] = size

    def _look(self) -> None:
        """Find what is there from earlier brokers."""
        if self._is_known:
            return
        found: list[tuple[float, Path, int]] = []
        for path in self._directory.glob(f"*/*-stop*{SUFFIX}"):
            with contextlib.suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    found.append((status.st_mtime, path, status.st_size))
        for _, path, size in sorted(found):
            self._ended[path] = size
            self._total += size
        self._is_known = True
        self.grew(0)


@dataclass(slots=True, eq=False)
class Recording:
    """One stop on its way to a file. The loop writes ``given`` alone, the writing thread the rest."""

    cast: StopCast
    given: int = 0
    """Bytes handed over for this recording."""
    done: int = 0
    """Bytes of them that wait no more."""
    path: Path | None = None
    size: int = 0
    lost: int = 0
    """Bytes of output that were not written since the last line that was."""
    is_full: bool = False
    wants_repaint: bool = field(default=False)
    """Whether the file is written again after a gap, which a screen's differences can't fill; the loop resets it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to write; ``happening`` is None for the end of a recording. ``cost`` counts against the bound."""

    recording: Recording
    happening: Happening | None
    cost: int


class RecordingWriter:
    """Write recordings to a directory; :meth:`put` may be called from one thread, and does not block."""

    def __init__(self, directory: RecordingDirectory, write: Write = os.write) -> None:
        """Begin to write; ``write`` may block, raise OSError, or write a part."""
        self._directory = directory
        self._write = write
        self._waiting: queue.SimpleQueue[list[Entry] | None] = queue.SimpleQueue()
        self._descriptors: OrderedDict[Recording, int] = OrderedDict()
        self._is_failing = False
        self.done = 0
        """Cost of all entries that wait no more."""
        self.begun = self.written = self.lost = 0
        self._thread = threading.Thread(target=self._work, name="dbg-broker-record", daemon=True)
        self._thread.start()

    @property
    def removed(self) -> int:
        """Return how many files were removed to make room."""
        return self._directory.removed

    def put(self, entries: list[Entry]) -> None:
        """Have these written; the caller bounds how much waits, by :attr:`done`."""
        self._waiting.put(entries)

    def close(self) -> None:
        """Write what waits, for END_SECONDS at most."""
        self._waiting.put(None)
        self._thread.join(END_SECONDS)

    # --------------------------------------------------------------------------------------------------- in the thread

    def _work(self) -> None:
        while (entries := self._waiting.get()) is not None:
            by_recording: dict[Recording, list[Entry]] = {}
            for entry in entries:
                by_recording.setdefault(entry.recording, []).append(entry)
            for recording, its in by_recording.items():
                try:
                    self._put(recording, its)
                except Exception:  # the other recordings go on
                    logger.exception("a bug in the recording %s", recording.path)
                cost = sum(entry.cost for entry in its)
                recording.done += cost
                self.done += cost
        for descriptor in self._descriptors.values():
            os.close(descriptor)

    def _put(self, recording: Recording, entries: list[Entry]) -> None:
        try:
            self._put_lines(recording, entries)
        except OSError as error:
            output = sum(entry.happening.size for entry in entries if isinstance(entry.happening, Shown))
            recording.lost += output
            self.lost += output
            self._close(recording)
            if not self._is_failing:
                logger.warning("a recording can't be written (%s); output is missing until it can", error.strerror)
            self._is_failing = True
        if entries[-1].happening is None:
            self._end(recording)

    def _put_lines(self, recording: Recording, entries: list[Entry]) -> None:
        cast = recording.cast
        happenings = [entry.happening for entry in entries if entry.happening is not None]
        if not happenings or recording.is_full:
            return
        gap = cast.lines_of(Missing(happenings[0].at, recording.lost)) if recording.lost else b""
        data = b"".join(map(cast.lines_of, happenings))
        if not data:
            return
        self._append(recording, gap + data)
        recording.wants_repaint = recording.wants_repaint or bool(recording.lost)
        recording.lost = 0
        if recording.size >= MAX_FILE:
            self._fill(recording, happenings[-1].at)

    def _fill(self, recording: Recording, at: float) -> None:
        recording.is_full = True
        text = f"the recording ends here: a file takes {MAX_FILE // 2**20} MiB"
        self._append(recording, recording.cast.mark(at, text))
        logger.warning("the recording %s is full; the rest of its stop is not recorded", recording.path)

    def _append(self, recording: Recording, lines: bytes) -> None:
        """Append whole lines, or nothing; raise OSError."""
        descriptor = self._descriptor(recording)
        data = recording.cast.header() + lines if not recording.size else lines
        written = self._write(descriptor, data)
        if written < len(data):
            # A part of a line must not stay: what follows would be read as its end.
            os.ftruncate(descriptor, recording.size)
            raise OSError(28, f"only {written} of {len(data)} bytes were written")
        if not recording.size:
            logger.info("the recording %s begins", recording.path)
        recording.size += written
        self.written += written
        self._is_failing = False
        self._directory.grew(written)

    def _descriptor(self, recording: Recording) -> int:
        descriptor = self._descriptors.get(recording)
        if descriptor is not None:
            self._descriptors.move_to_end(recording)
            return descriptor
        if recording.path is None:
            recording.path, descriptor = self._directory.create(recording.cast.about)
            self.begun += 1
        else:
            descriptor = self._directory.reopen(recording.path)
        self._descriptors[recording] = descriptor
        if len(self._descriptors) > MAX_OPEN:
            os.close(self._descriptors.popitem(last=False)[1])
        return descriptor

    def _close(self, recording: Recording) -> None:
        descriptor = self._descriptors.pop(recording, None)
        if descriptor is not None:
            os.close(descriptor)

    def _end(self, recording: Recording) -> None:
        self._close(recording)
        if recording.path is not None:
            self._directory.ended(recording.path, recording.size)


def new_recording(about: About) -> Recording:
    """Return a recording of which nothing is written yet."""
    return Recording(StopCast(about))
