"""Show what a job prints while no debugger is on the screen."""

from __future__ import annotations

import contextlib
import os
import select
import sys

from dbg_client.run.growing_file import GrowingFile
from dbg_client.run.last_line import LastLine
from dbg_client.streams import tell, terminal_size
from dbg_client.terminal.screen import CALM
from dbg_wire.errors import printable
from dbg_wire.sequences import QueryFilter

MAX_BEHIND = 1024 * 1024
"""Bytes printed during a session that a terminal shows afterwards; of more only the end: nobody reads the rest."""

END_SHOWN = 64 * 1024
"""Bytes of that end: a few thousand lines."""


class JobOutput:
    """A job's output on stdout. A terminal gets no sequence that changes it for good or makes it answer.

    A pipe or a file gets every byte as it is. A sentence of ours may be kept below the output while that is shown.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = GrowingFile(path, self._show)
        self._is_terminal = sys.stdout.isatty()
        self._filter = QueryFilter()
        self._nobody_reads = False
        self._has_last_line = self._is_terminal and sys.stderr.isatty() and os.environ.get("TERM") not in (None, "dumb")
        self._last_line = LastLine()
        self._kept = ""
        self._rows_gone_up = 0
        self._has_printed = False

    def keep_last(self, sentence: str, *, at_once: bool = True) -> bool:
        """Keep a sentence below what the job prints, in place of the one before; return whether that can be.

        An empty one takes it away. Without ``at_once`` it is shown once the job has printed something behind what was
        told between two debuggers.
        """
        if not self._has_last_line:
            return False
        if sentence == self._kept:
            return self._last_line.is_possible
        self._kept = sentence
        if not sentence:
            self._write(self._erased())
        elif at_once or self._has_printed:
            self._write(self._erased() + self._drawn())
        return self._last_line.is_possible

    def say(self, sentence: str) -> None:
        """Write a line for people, on a line of its own, above the one that is kept."""
        if self._has_last_line:
            was_drawn = self._last_line.is_drawn
            self._write(self._erased() + self._last_line.end())
            self._last_line = LastLine()
            tell(sentence)
            if was_drawn:
                self._write(self._drawn())
        else:
            tell(sentence)

    def enter_typed(self) -> None:
        """Take the kept line away, whose row the echo of Enter has brought the cursor to."""
        if self._has_last_line and self._last_line.is_drawn:
            self._last_line = LastLine()
            self._kept = ""
            self._write(b"\r\x1b[J")

    def show(self) -> None:
        """Show what was printed meanwhile, and what will be."""
        if self._is_terminal and self._file.behind > MAX_BEHIND:
            left_out = self._file.behind - END_SHOWN
            self._file.skip(left_out)
            self._filter = QueryFilter()
            where = printable(self._path)
            self._write(f"\n… {left_out:,} bytes of output are left out here; all of it is in {where}\n".encode())
        if self._rows_gone_up:
            # A job that draws several bars goes up first, over what was told meanwhile.
            self._write(b"\n" * self._rows_gone_up)
        self._file.start()

    def hide(self) -> None:
        """Show nothing until :meth:`show`."""
        self._file.stop()
        self._calm(ends_line=True)

    def finish(self) -> None:
        """Show all that is left, and end."""
        self._file.stop()
        self._file.read_rest()
        self._file.close()
        self._calm()

    def _calm(self, *, ends_line: bool = False) -> None:
        if self._is_terminal:
            self._filter = QueryFilter()
            # What is told next, such as whom this terminal is attached to, belongs on a line of its own.
            end = self._last_line.end() if ends_line and self._has_last_line else b""
            self._write(self._erased() + CALM + end)
            self._rows_gone_up = max(self._rows_gone_up, self._last_line.most_below)
            self._last_line = LastLine()
            self._kept = ""
            self._has_printed = False

    def _show(self, data: bytes) -> None:
        if not self._is_terminal:
            self._write(data)
            return
        shown = self._filter.feed(data)
        self._has_printed = True
        erased = self._erased(shown)
        self._last_line.note(shown)
        self._write(erased + shown + self._drawn())

    def _erased(self, following: bytes = b"") -> bytes:
        return self._last_line.erase(terminal_size()[1], following)

    def _drawn(self) -> bytes:
        return self._last_line.draw(self._kept, *terminal_size()) if self._kept else b""

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
