"""The breakpoints that a user leaves behind, to be set again in a later job, and the file that hands them on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from dbg_dial.files import write_whole
from dbg_wire.records.ranks import Breakpoint
from dbg_wire.records.record import checked, plain

MAX_FILE = 1024 * 1024
"""Bytes of one file that are read: a hundred breakpoints with long conditions take less."""


def write_breakpoints(path: str, breakpoints: Sequence[Breakpoint]) -> None:
    """Replace the file as a whole; nothing happens where that is not possible, as after the end of the run. Blocks."""
    with contextlib.suppress(OSError):
        write_whole(Path(path), json.dumps([plain(one) for one in breakpoints]))


def read_breakpoints(path: str) -> tuple[Breakpoint, ...]:
    """Return the breakpoints in a file; none if it is missing or nothing that was written here. Blocks."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return tuple(checked(Breakpoint(**each)) for each in json.loads(file.read(MAX_FILE)))
    except (OSError, ValueError, TypeError):
        return ()


class Breakpoints:
    """The breakpoints of every rank that this terminal was at, as the rank told them last.

    They outlive sessions and ranks. ``on_change`` is called with all of them when they are others than before.
    """

    def __init__(self, on_change: Callable[[tuple[Breakpoint, ...]], None] | None = None) -> None:
        self._by_rank: dict[str, tuple[Breakpoint, ...]] = {}
        self._on_change = on_change

    def note(self, key: str, breakpoints: tuple[Breakpoint, ...]) -> None:
        """Replace what is known of the rank with this key."""
        if self._by_rank.get(key, ()) != breakpoints:
            self._by_rank[key] = breakpoints
            if self._on_change is not None:
                self._on_change(self.all)

    @property
    def all(self) -> tuple[Breakpoint, ...]:
        """Return the breakpoints of all ranks, ordered by file and line, each once."""
        found = {one for told in self._by_rank.values() for one in told}
        return tuple(sorted(found, key=lambda one: (one.file, one.line, one.condition or "")))
