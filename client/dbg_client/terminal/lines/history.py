"""What the user typed at line debuggers before: one private file for all sessions."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from dbg_dial.whole_file import write_whole

MAX_BYTES = 1024 * 1024
"""Bytes of the file, some twenty thousand lines; when it is longer its older half goes."""


def open_history(environ: Mapping[str, str], keeps: Callable[[], bool]) -> History:
    """Return the history of this user, kept in a private file where possible.

    ``keeps`` is asked before a line is stored. Never raises: without a file the history is this session's own.
    """
    path = history_path(environ)
    if path is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            path.chmod(0o600)
            _shorten(path)
            return _FileHistory(path, keeps)
    return _MemoryHistory(keeps)


def history_path(environ: Mapping[str, str]) -> Path | None:
    """Return where the file is, ``$XDG_STATE_HOME/dbg-broker/pdb_history``; None if nothing names a home."""
    state, user = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if Path(state).is_absolute():
        return Path(state) / "dbg-broker" / "pdb_history"
    return Path(user) / ".local" / "state" / "dbg-broker" / "pdb_history" if Path(user).is_absolute() else None


class _FileHistory(FileHistory):
    def __init__(self, path: Path, keeps: Callable[[], bool]) -> None:
        super().__init__(str(path))
        self._keeps = keeps

    def append_string(self, string: str) -> None:
        if self._keeps():
            super().append_string(string)

    def store_string(self, string: str) -> None:
        # A full disk must not end the session.
        with contextlib.suppress(OSError):
            super().store_string(string)


class _MemoryHistory(InMemoryHistory):
    def __init__(self, keeps: Callable[[], bool]) -> None:
        super().__init__()
        self._keeps = keeps

    def append_string(self, string: str) -> None:
        if self._keeps():
            super().append_string(string)


def _shorten(path: Path) -> None:
    if path.stat().st_size <= MAX_BYTES:
        return
    with path.open("rb") as file:
        file.seek(-MAX_BYTES // 2, os.SEEK_END)
        kept = file.read()
    # Entries begin with a blank line and a comment; half of one is no entry.
    kept = kept[max(0, kept.find(b"\n# ")) :]
    write_whole(path, kept)
