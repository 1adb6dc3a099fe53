"""Show what a job prints while no debugger is on the screen."""

from __future__ import annotations

import contextlib
import os
import select
import sys

from dbg_wire.errors import printable

from ..terminal.screen import CALM
from ..terminal.sequences import QueryFilter
from .growing_file import GrowingFile

MAX_BEHIND = 1024 * 1024
"""Bytes printed during a session that a terminal shows afterwards; of more only the end: nobody reads the rest."""

END_SHOWN = 64 * 1024
"""Bytes of that end: a few thousand lines."""


class JobOutput:
    """A job's output on stdout. A terminal gets no sequence that changes it for good or makes it answer.

    A pipe or a file gets every byte as it is.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = GrowingFile(path, self._show)
        self._is_terminal = sys.stdout.isatty()
        self._filter = QueryFilter()
        self._nobody_reads = False

    def show(self) -> None:
        """Show what was printed meanwhile, and what will be."""
        if self._is_terminal and self._file.behind > MAX_BEHIND:
            left_out = self._file.behind - END_SHOWN
            self._file.skip(left_out)
            self._filter = QueryFilter()
            where = printable(self._path)
            self._write(f"\n… {left_out:,} bytes of output are left out here; all of it is in {where}\n".encode())
        self._file.start()

    def hide(self) -> None:
        """Show nothing until :meth:`show`."""
        self._file.stop()
        self._calm()

    def finish(self) -> None:
        """Show all that is left, and end."""
        self._file.stop()
        self._file.read_rest()
        self._file.close()
        self._calm()

    def _calm(self) -> None:
        if self._is_terminal:
            self._filter = QueryFilter()
            self._write(CALM)

    def _show(self, data: bytes) -> None:
        self._write(self._filter.feed(data) if self._is_terminal else data)

    def _write(self, data: bytes) -> None:
        """Write all of it; Ctrl-S and a slow window hold it back, as they do with any program's output."""
        view = memoryview(data)
        try:
            while view and not self._nobody_reads:
                # Another program on the same terminal may have made its writes non-blocking.
                select.select([], [sys.stdout.fileno()], [])
                with contextlib.suppress(BlockingIOError):
                    view = view[os.write(sys.stdout.fileno(), view) :]
        except OSError:
            # `| head` has seen enough, or the window is gone; the file has it all.
            self._nobody_reads = True
