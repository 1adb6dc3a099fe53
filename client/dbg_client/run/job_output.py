"""Show what a job prints while no debugger is on the screen, read from a file that grows.

A line of ours may stand below it, which is gone before the job's next byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import sys
from collections.abc import Callable

from dbg_client.shell.output import tell, terminal_size
from dbg_client.terminal.screen import CALM
from dbg_client.views.table import char_width
from dbg_command.sequences import QueryFilter
from dbg_dial.files import watch_growth
from dbg_wire.errors import printable

MAX_BELOW = 40
"""Rows that a job's nested bars take below its cursor; a job that uses more draws a screen of its own."""

_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_MOVE = re.compile(rb"[\n\v\f]|\x1b(?:[DEM78c]|\[[0-?]*[ -/]*[@-~])")
_PLAIN_ASCII = re.compile(rb"[ -~]*")
_UP, _DOWN = frozenset(b"AF"), frozenset(b"BEe")
_LOSES_THE_ROW = frozenset(b"HfdrsuLMSTp")
"""Final bytes of sequences after which the job's row is unknown: absolute moves, regions, saved places, scrolling."""

_OTHER_SCREEN = re.compile(rb"\x1b\[\?[0-9;]*(?:47|1047|1048|1049)[0-9;]*[hl]")

READ_BYTES = 64 * 1024
"""Bytes of one read: between two of them the event loop looks at what else has happened."""

LOOK_SECONDS = 0.2
"""Seconds between two looks where the kernel tells nothing: its watches are used up, or it has none."""

MAX_BEHIND = 1024 * 1024
"""Bytes printed during a session that a terminal shows afterwards; of more only the end: nobody reads the rest."""

END_SHOWN = 64 * 1024
"""Bytes of that end: a few thousand lines."""


class LastLine:
    """Know where the job's cursor stands, and say what draws or erases a line below it.

    ``note`` takes everything that the job writes. The cursor stays the job's: the line is drawn on the row below the
    lowest row that the job uses. ``is_possible`` is False once the job draws a screen of its own.
    """

    def __init__(self) -> None:
        self._below = 0
        """Rows below the cursor that hold output, as behind the upper one of two bars."""
        self._column: int | None = 0
        """Characters since the line's beginning; None if something else than text has moved the cursor."""
        self._is_overwritten = False
        """Whether older text of the line may stand to the right of the cursor, as behind a carriage return."""
        self._drawn = False
        self.most_below = 0
        """The most rows that were below the cursor: a job goes up by that many to draw its bars again."""
        self.is_possible = True

    @property
    def is_drawn(self) -> bool:
        """Tell whether the line is on the screen."""
        return self._drawn

    @property
    def at_line_start(self) -> bool:
        """Tell whether the job has ended its last line."""
        return self._column == 0 and self._below == 0

    def note(self, data: bytes) -> None:
        """Follow the cursor through what the job has written."""
        if b"\x1b" in data or self._below:
            self._follow_rows(data)
        end_of_lines = data.rfind(b"\n") + 1
        self._is_overwritten = (self._is_overwritten and not end_of_lines) or b"\r" in data[end_of_lines:]
        begin = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        text = _SEQUENCE.sub(b"", data[begin:])
        before = 0 if begin else self._column
        is_plain = _PLAIN_ASCII.fullmatch(text) is not None and not _moves_sideways(data[begin:])
        self._column = before + len(text) if is_plain and before is not None else None

    def _follow_rows(self, data: bytes) -> None:
        for match in _MOVE.finditer(data):
            move = match[0]
            if move in (b"\n", b"\v", b"\f", b"\x1bD", b"\x1bE"):
                self._below = max(0, self._below - 1)
            elif move == b"\x1bM":
                self._below += 1
            elif len(move) == 2 or move[-1] in _LOSES_THE_ROW or _OTHER_SCREEN.fullmatch(move):
                self.is_possible = False
            elif move[-1] in _UP:
                self._below += _count(move)
            elif move[-1] in _DOWN:
                self._below = max(0, self._below - _count(move))
            self.most_below = max(self.most_below, min(self._below, MAX_BELOW))
        if self._below > MAX_BELOW:
            self.is_possible = False

    def draw(self, text: str, rows: int, columns: int) -> bytes:
        """Return what shows the text below the job's output; empty where there is no room for it."""
        below = self._below + 1
        if not self.is_possible or below > rows - 2 or columns < 2:
            return b""
        self._drawn = True
        # An index, unlike a line feed, keeps the column in every mode of the terminal, and scrolls at the last row.
        room = b"\x1bD" * below + b"\x1b[%dA" % below
        shown = clipped(text, columns - 1).encode("utf-8", "replace")
        return b"%b\x1b7\x1b[%dB\r\x1b[0m%b\x1b[K\x1b8" % (room, below, shown)

    def erase(self, columns: int, following: bytes = b"") -> bytes:
        """Return what takes the line away before the job's ``following`` bytes; empty if it isn't there."""
        if not self._drawn:
            return b""
        self._drawn = False
        is_at_edge = bool(self._column) and (self._column or 0) % columns == 0
        # Where nothing stands to its right all behind the cursor goes: an Enter that was typed has moved it down.
        is_behind = self._column is not None and not (self._below or self._is_overwritten or is_at_edge)
        down = b"" if is_behind else b"\x1b[%dB\r" % (self._below + 1)
        # The drawing has ended the state in which a terminal wraps before the next character.
        wrap = b"\r\n" if is_at_edge and b" " <= following[:1] <= b"~" else b""
        return b"\x1b7%b\x1b[0m\x1b[J\x1b8%b" % (down, wrap)

    def end(self) -> bytes:
        """Return what puts the cursor at the beginning of a row of its own, below all that the job has written."""
        if self.at_line_start or not self.is_possible:
            return b""
        down = b"\x1b[%dB" % self._below if self._below else b""
        return down + b"\r\n"


def _moves_sideways(data: bytes) -> bool:
    """Tell whether a sequence among these bytes does anything but colour text or erase."""
    return any(not match[0].endswith((b"m", b"K")) for match in _SEQUENCE.finditer(data))


def _count(move: bytes) -> int:
    digits = move[2:-1]
    return max(1, int(digits)) if digits.isdigit() else 1


def clipped(text: str, columns: int) -> str:
    """Return the text cut to a number of columns, with an ellipsis if something is cut."""
    width = 0
    for position, char in enumerate(text):
        width += char_width(char)
        if width > columns:
            kept = text[: position + 1]
            # The ellipsis takes two columns in some terminals.
            while kept and width > columns - 2:
                width -= char_width(kept[-1])
                kept = kept[:-1]
            return f"{kept}…"
    return text


class GrowingFile:
    """Call ``take`` with what is in a file and what is appended to it, while it is started.

    Belongs to the event loop's thread. Nothing is read twice or left out, however often it is started and stopped.
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
        """Return how many bytes are in the file that were not read."""
        return max(0, os.fstat(self._file).st_size - os.lseek(self._file, 0, os.SEEK_CUR))

    def skip(self, count: int) -> None:
        """Leave out the next ``count`` bytes."""
        os.lseek(self._file, count, os.SEEK_CUR)

    def start(self) -> None:
        """Read what is there, and then what is appended."""
        if self._started:
            return
        self._started = True
        if self._watch is not None:
            self._loop.add_reader(self._watch, self._grown)
        self._read()

    def stop(self) -> None:
        """Read nothing more until it is started again."""
        self._started = False
        if self._watch is not None:
            self._loop.remove_reader(self._watch)
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def read_rest(self) -> None:
        """Read what is there, all of it at once."""
        while data := os.read(self._file, READ_BYTES):
            self._take(data)

    def close(self) -> None:
        """Stop for good."""
        self.stop()
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
            self._next = self._loop.call_later(LOOK_SECONDS, self._read)


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
