"""Values that are read from files, and read again when one of the files has changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from dbg_dial.find import open_at_once

T = TypeVar("T")

State = tuple[int, ...]
"""Device, inode, size, and times of the last change of a file; the error number if it can't be opened."""


class Watched(Generic[T]):
    """A value that is read from files; ``value`` is the one that was read last. Belongs to one thread at a time."""

    def __init__(self, files: Sequence[Path], read: Callable[[], T]) -> None:
        """Read the value. Raise the errors of ``read``."""
        self._files = tuple(files)
        self._read = read
        self._seen = self._states()
        self.value = read()

    def is_changed(self) -> bool:
        """Read the value again if a file has changed since, and return whether there is another value.

        Raise the errors of ``read``; the next call then reads again.
        """
        states = self._states()
        if states == self._seen:
            return False
        value, before = self._read(), self.value
        # The files were looked at before they were read, so a change in between is seen by the next call.
        self._seen, self.value = states, value
        return value != before

    def _states(self) -> tuple[State, ...]:
        return tuple(map(state_of, self._files))


def state_of(path: Path) -> State:
    """Return the state of a file as its file server knows it: a kernel asks the server again when a file is opened."""
    try:
        with open_at_once(str(path)) as file:
            found = os.fstat(file.fileno())
    except OSError as error:
        return (error.errno or 0,)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
