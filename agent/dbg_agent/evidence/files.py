"""What the files of the program, and the installed packages, are: digests and versions.

A thread of its own reads them, since a file system may hang, and nobody waits for it for long.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

from dbg_agent.process.threads import own_thread
from dbg_agent.stop.loaded_sources import file_of, is_edited, process_started
from dbg_agent.stop.user_frames import is_users_file

WAIT_SECONDS = 0.3
"""Seconds that a look waits for the reading: hundreds of files take some 30 ms on a disk."""

MAX_FILES = 1000
MAX_FILE_BYTES = 4_000_000
MAX_BYTES = 64_000_000
"""Files that are read, bytes of one, and bytes of all: no user's program has more of its own."""

MAX_COMPILED = 100_000
"""Bytes of edited files that one look compiles, which holds the interpreter for some 50 ms."""

MAX_PACKAGES = 1000
MAX_ENTRIES = 20_000
"""Packages that are told, and entries of folders that are looked through for them."""

EDITED = "edited since it was loaded"
CHANGED = "changed since the process began"

_PACKAGE = re.compile(r"(.+?)-([0-9][^-]*)(?:-py[0-9.]+)?\.(?:dist|egg)-info")


class CodeFiles:
    """The files and packages of this process, read anew where they have changed; for the link's thread."""

    def __init__(self) -> None:
        self._digests: dict[str, tuple[tuple[int, int], str]] = {}
        """What is known of a file, by its path, with the time and size that it had."""
        self._started = process_started()
        self._reading: threading.Thread | None = None
        self._told: tuple[dict[str, str], dict[str, str]] | None = None

    def read(self) -> tuple[dict[str, str], dict[str, str]] | None:
        """Return the digests of files and the versions of packages; None if reading takes too long, for now."""
        if self._reading is None or not self._reading.is_alive():
            self._told = None
            self._reading = own_thread(self._read, "dbg-agent-code")
            try:
                self._reading.start()
            except RuntimeError:
                self._reading = None
                return None
        self._reading.join(WAIT_SECONDS)
        return self._told

    def _read(self) -> None:
        # No fault of a reading may be printed into the job's output.
        with suppress(Exception):
            self._told = self._files(), packages(list(sys.path))

    def _files(self) -> dict[str, str]:
        found: dict[str, str] = {}
        left, to_compile = MAX_BYTES, MAX_COMPILED
        for name, path in sorted(own_files().items())[:MAX_FILES]:
            try:
                status = os.stat(path)  # noqa: PTH116 - no pathlib in a rank
            except (OSError, ValueError):
                found[name] = "is gone"
                continue
            mark = status.st_mtime_ns, status.st_size
            known = self._digests.get(path)
            if known is None or known[0] != mark:
                source = _content(path) if status.st_size <= min(left, MAX_FILE_BYTES) else b""
                left -= len(source)
                changed = max(status.st_mtime, status.st_ctime) > self._started
                is_compiled = changed and len(source) <= to_compile
                to_compile -= len(source) if is_compiled else 0
                known = self._digests[path] = mark, _told(path, source, changed, is_compiled)
            found[name] = known[1]
        return found


def _told(path: str, source: bytes, changed: bool, is_compiled: bool) -> str:
    digest = hashlib.blake2b(source, digest_size=8).hexdigest()
    if is_compiled:
        with suppress(Exception):
            return f"{digest} ({EDITED})" if is_edited(path, source) else digest
    return f"{digest} ({CHANGED})" if changed else digest


def own_files() -> dict[str, str]:
    """Return the paths of the loaded files of the user's own code, by names that are equal on all hosts."""
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        path = file_of(module)
        if path is not None and is_users_file(path) and type(name) is str and not name.startswith("dbg_"):
            found.setdefault(short_name(name, path), path)
    return found


def short_name(module: str, path: str) -> str:
    """Return the end of a module's path that its name says: ``model/layers.py`` of ``model.layers``."""
    parts = path.split("/")
    count = 1 if module == "__main__" else module.count(".") + 1 + (parts[-1] == "__init__.py")
    return "/".join(parts[-count:])


def packages(path: list[str]) -> dict[str, str]:
    """Return the versions of the packages that the folders of a path have, by name, as the names of files tell them."""
    found: dict[str, str] = {}
    left = MAX_ENTRIES
    for folder in path:
        for entry in _entries(folder, left):
            left -= 1
            match = _PACKAGE.fullmatch(entry)
            if match is not None and len(found) < MAX_PACKAGES:
                # As Python does, the first folder with the package counts.
                found.setdefault(re.sub(r"[-_.]+", "-", match[1]).lower(), match[2])
    return found


def _entries(folder: str, most: int) -> Iterator[str]:
    with suppress(OSError, ValueError, TypeError), os.scandir(folder) as entries:
        for _, entry in zip(range(most), entries, strict=False):
            yield entry.name


def _content(path: str) -> bytes:
    try:
        # O_NONBLOCK: open() of a pipe must not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    with open(descriptor, "rb") as file:  # noqa: PTH123 - no pathlib in a rank
        return file.read(MAX_FILE_BYTES)
