"""The directory of recordings: one folder for each job, one file for each stop that somebody attached to.

All files together are bounded: the oldest are removed, but never one that is still written.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import stat
import time
from collections import OrderedDict
from pathlib import Path

from dbg_broker.home.path import check_way
from dbg_broker.home.rendezvous import make_private_directory
from dbg_broker.recording.stop_cast import About
from dbg_wire.errors import BadInput, printable

SUFFIX = ".cast"

MAX_NAME = 80
"""Characters of a job's or an address's part of a name; a file system takes 255 bytes."""

MAX_SAME = 100
"""Files whose names differ in a last number alone: ranks of two jobs with one name, stopped in one second."""

_ANOTHER = "name another directory"

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


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
