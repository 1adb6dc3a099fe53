"""A job's output, read from a growing file and shown while no debugger is on the screen.

Output is passed on as it arrives. The messages of dbg-attach go to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
from collections.abc import Callable

from dbg_client.shell.streams import notify
from dbg_client.terminal.screen import CALM
from dbg_command.home import watch_growth
from dbg_command.sequences import QueryFilter
from dbg_wire.errors import printable

READ_BYTES = 64 * 1024
"""Maximum bytes of one read; between two reads the event loop handles other events."""

CHECK_SECONDS = 0.2
"""Poll interval in seconds if the kernel has no file watches, or has used them up."""

MAX_BEHIND = 1024 * 1024
"""Maximum bytes of hidden output that a terminal shows after a session; if there is more, only its end is shown."""

END_SHOWN = 64 * 1024
"""Bytes that are shown, from the end of the output, if it exceeds MAX_BEHIND. They are a few thousand lines."""


class GrowingFile:
    """Reader that passes a file's content, and everything appended to it, to ``take`` while started.

    Belongs to the event loop's thread. It reads every byte exactly once, no matter how often it is started and stopped.
    """

    def __init__(self, path: str, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._loop = asyncio.get_running_loop()
        self._watch = watch_growth(path)
        self._next: asyncio.Handle | None = None
        self._started = False

    @property
    def behind(self) -> int:
        """Number of bytes in the file that have not been read yet."""
        return max(0, os.fstat(self._file).st_size - os.lseek(self._file, 0, os.SEEK_CUR))

    def skip(self, count: int) -> None:
        """Skip the next ``count`` bytes."""
        os.lseek(self._file, count, os.SEEK_CUR)

    def start(self) -> None:
        """Read from the present position to the end, and then all data that is appended."""
        if self._started:
            return
        self._started = True
        if self._watch is not None:
            self._loop.add_reader(self._watch, self._grown)
        self._read()

    def stop(self) -> None:
        """Stop reading until the next start."""
        self._started = False
        if self._watch is not None:
            self._loop.remove_reader(self._watch)
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def close(self) -> None:
        """Read all remaining content at once, and close the file."""
        self.stop()
        while data := os.read(self._file, READ_BYTES):
            self._take(data)
        os.close(self._file)
        if self._watch is not None:
            os.close(self._watch)

    def _grown(self) -> None:
        if self._watch is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._watch, 4096)
        if self._next is None:
            self._read()

    def _read(self) -> None:
        self._next = None
        data = os.read(self._file, READ_BYTES)
        if data:
            self._take(data)
            self._next = self._loop.call_soon(self._read) if self._started else None
        elif self._watch is None:
            self._next = self._loop.call_later(CHECK_SECONDS, self._read)


class JobOutput:
    """A job's output on stdout. On a terminal, sequences that change it permanently or query it are filtered out.

    A pipe or a file gets every byte unchanged.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = GrowingFile(path, self._show)
        self._is_terminal = sys.stdout.isatty()
        self._filter = QueryFilter()
        self._nobody_reads = False
        self._is_within_line = False

    def print_line(self, sentence: str) -> None:
        """Print a message on its own line."""
        self._end_line()
        notify(sentence)

    def show(self) -> None:
        """Show the output since :meth:`hide`, and new output."""
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
        # The next message, such as the rank that this terminal is attached to, needs its own line.
        self._end_line()

    def finish(self) -> None:
        """Show the remaining output, and close the file."""
        self._file.close()
        self._calm()

    def _calm(self) -> None:
        if self._is_terminal:
            self._filter = QueryFilter()
            self._write(CALM)

    def _end_line(self) -> None:
        if self._is_terminal and self._is_within_line:
            self._is_within_line = False
            self._write(b"\r\n")

    def _show(self, data: bytes) -> None:
        shown = self._filter.feed(data) if self._is_terminal else data
        if shown:
            self._is_within_line = not shown.endswith(b"\n")
            self._write(shown)

    def _write(self, data: bytes) -> None:
        """Write all data; Ctrl-S or a slow window blocks this, as with any program's output."""
        view = memoryview(data)
        try:
            while view and not self._nobody_reads:
                # Programs that inherit one open terminal share the non-blocking flag. If another program has set
                # the flag, this program's writes do not block either.
                select.select([], [sys.stdout.fileno()], [])
                with contextlib.suppress(BlockingIOError):
                    view = view[os.write(sys.stdout.fileno(), view) :]
        except OSError:
            # `| head` has read enough, or the window is gone; the file still gets all of the output.
            self._nobody_reads = True
