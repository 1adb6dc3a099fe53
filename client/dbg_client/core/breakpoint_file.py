"""The breakpoints that people have set in one pane of tmux, in a file for the run that has opened the pane."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from dbg_dial.whole_file import write_whole
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
