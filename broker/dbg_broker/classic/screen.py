"""A stock PuDB, ``pudb.remote.set_trace(reverse=True)``, as a session that terminals can leave and rejoin. Pure."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from dbg_broker.classic.session import QUIET_SECONDS, ClassicSession, SessionOutput, Write
from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.messages import Notice, Report
from dbg_wire.sequences import QueryFilter, TextFilter
from dbg_wire.tables.engines import PUDB

_SWITCH = re.compile(rb"\x1b\[\?(?:47|1047|1049)([hl])")
_BEGUN_SWITCH = re.compile(rb"\x1b(?:\[(?:\?(?:4|47|1|10|104|1047|1049)?)?)?\Z")

_MOVE = re.compile(
    r"\x1b\[([0-9]*)(?:;([0-9]*))?H|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]|([\x00-\x1f]+)|([^\x00-\x1f]+)"
)
_BEGUN_MOVE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[ -/]*)?\Z")

MAX_HELD = 64
"""Characters held of a move that is not complete; those that are looked for have a dozen."""

MAX_KEPT = 768 * limits.KIB
"""Bytes kept of a screen since it began, some 200 redraws; more would not fit into the queue of the terminal that they
are replayed to."""

MAX_SETUP = 4 * limits.KIB
"""Bytes before the first drawing; they set the terminal up and are never cut."""

MAX_PRINTED = 64 * limits.KIB
"""Characters kept of what the program prints: several pages."""

REACTION_SECONDS = 3.0
"""Seconds after a key in which PuDB draws something, as it does at most keys; on a busy host it needs one."""

NO_REACTION = (
    "this PuDB has reacted to no key so far: stock pudb.remote takes none on Python 3.12 and newer with urwid 4.1.0 "
    "and newer; install 'urwid<4.1' for the program, or use install(classic=True) there"
)

MAX_PAGE_LINES = 200
"""Printed lines that a new terminal is shown while the program runs: the highest windows have half as many."""

MAX_PARTS = 1024
"""Parts of printed text that are kept before they are joined."""

MAX_LINE = 4096
"""Characters searched for the begin of the last printed line."""

PAGE_SECONDS = 0.1
"""Least seconds between two pages, as between two repaints: a program that prints at each step opens a page at each."""

MAX_SHOWN = 120
"""Characters of the last printed line that the status line repeats."""

_HOME = b"\x1b[H"
"""What each drawing of PuDB begins with."""

_SCREEN = b"\x18\x1b[0m\x0f\x1b[r\x1b[?7l\x1b[2J\x1b[H"
"""Prepares a terminal of any size: it cuts off rows that are too long instead of wrapping them into the next row."""

_PAGE = b"\x18\x1b[0m\x0f\x1b[r\x1b[?7h\x1b[2J\x1b[H\x1b[?25h"

_CTRL_L = b"\x0c"


@dataclass(frozen=True, slots=True)
class Entered:
    """Begin of the debugger's screen; ``data`` is the switch to it."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Left:
    """End of the debugger's screen: the program runs."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Bytes of the debugger's screen."""

    data: bytes


@dataclass(frozen=True, slots=True)
class PrintedBytes:
    """Bytes that came outside of the debugger's screen."""

    data: bytes


Piece = Entered | Left | Drawn | PrintedBytes


class Splitter:
    """Parser that cuts the stream at each switch of screens, even if a read ends within a switch."""

    def __init__(self) -> None:
        self._rest = b""
        self._drawing = False

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Yield complete pieces; the begin of a switch waits for its end."""
        data = self._rest + data
        begun = _BEGUN_SWITCH.search(data)
        data, self._rest = (data[: begun.start()], data[begun.start() :]) if begun else (data, b"")
        position = 0
        for switch in _SWITCH.finditer(data):
            yield from self._between(data[position : switch.start()])
            position = switch.end()
            self._drawing = switch[1] == b"h"
            yield Entered(switch[0]) if self._drawing else Left()
        yield from self._between(data[position:])

    def _between(self, data: bytes) -> Iterator[Piece]:
        if data:
            yield Drawn(data) if self._drawing else PrintedBytes(data)


class Extent:
    """The least size of a debugger's screen, as its drawing shows."""

    def __init__(self, rows: int = 0, columns: int = 0) -> None:
        self.rows, self.columns = rows, columns
        self._row, self._column = 0, 0
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> None:
        """Take drawn bytes."""
        text = self._rest + self._decoder.decode(data)
        begun = _BEGUN_MOVE.search(text)
        end = begun.start() if begun and len(text) - begun.start() <= MAX_HELD else len(text)
        text, self._rest = text[:end], text[end:]
        for token in _MOVE.finditer(text):
            if token[4]:
                self._write(token[4])
            elif token[3]:
                self._control(token[3])
            elif token[0].endswith("H"):
                self._row, self._column = _number(token[1]) - 1, _number(token[2]) - 1

    def _write(self, text: str) -> None:
        self._column += len(text) if text.isascii() else sum(map(_width, text))
        self.rows = max(self.rows, min(self._row + 1, 9999))
        self.columns = max(self.columns, min(self._column, 9999))

    def _control(self, controls: str) -> None:
        for control in controls:
            if control == "\r":
                self._column = 0
            elif control == "\n":
                self._row += 1
            elif control == "\b":
                self._column = max(0, self._column - 1)


def _number(text: str | None) -> int:
    return max(1, int(text[:5])) if text else 1


def _width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def without_queries(data: bytes) -> bytes:
    """Return a screen's bytes without queries, which every terminal that gets the bytes would answer."""
    drawing = QueryFilter()
    # The rest of a sequence that has begun comes with the next bytes.
    return drawing.feed(data) + data[len(data) - drawing.held_back :]


class Prints:
    """The last MAX_PRINTED characters that a program printed; the cost of adding text depends on the new text only."""

    def __init__(self) -> None:
        self._parts: deque[str] = deque()
        self._size = 0

    def append(self, text: str) -> None:
        """Add text, and drop the oldest."""
        self._parts.append(text)
        self._size += len(text)
        while self._size - len(self._parts[0]) >= MAX_PRINTED:
            self._size -= len(self._parts.popleft())
        if len(self._parts) > MAX_PARTS:
            self._parts = deque([self.text()])
            self._size = len(self._parts[0])

    def text(self) -> str:
        """Return all that is kept."""
        return "".join(self._parts)[-MAX_PRINTED:]

    def last_line(self) -> str:
        """Return the last line that is not empty, or its end if it is long."""
        tail = ""
        for part in reversed(self._parts):
            tail = part + tail
            if len(tail) > MAX_LINE or "\n" in tail.rstrip():
                break
        return tail.rstrip().rpartition("\n")[2]


class ScreenSession(ClassicSession):
    """Session that keeps what PuDB has drawn since its screen began, and what the program has printed last.

    ``size`` is (rows, columns) if the user gave them; they grow with what PuDB is seen to draw.
    """

    engine = PUDB
    no_screen = "a stock PuDB's screen exists only in terminals; attach to see it"
    no_continue = "a stock PuDB goes on only when somebody types c; attach and type it"

    def __init__(self, now: float, size: tuple[int, int] = (0, 0)) -> None:
        super().__init__(now)
        self._splitter = Splitter()
        self._extent = Extent(*size)
        self._drawing = False
        self._kept = bytearray()
        self._setup = 0
        self._is_cut = False
        self._text = TextFilter(colors=False)
        self._printed = Prints()
        self._has_printed = False
        self._page_is_open = False
        self._has_reacted = False
        """Whether anything came after a key."""
        self._awaits_reaction = False
        self._page_at = now - PAGE_SECONDS

    def received(self, data: bytes, now: float) -> list[SessionOutput]:
        """Take what PuDB draws and the program prints."""
        size = self._size()
        outputs: list[SessionOutput] = []
        if self._awaits_reaction:
            self._awaits_reaction, self._has_reacted, self.due = False, True, None
        for piece in self._splitter.feed(data):
            if isinstance(piece, Entered):
                outputs += self._enter(piece.data, now)
            elif isinstance(piece, Left):
                self._leave(now)
            elif isinstance(piece, Drawn):
                outputs += self._draw(piece.data)
            else:
                outputs += self._print(self._text.feed(piece.data), now)
        if self._size() != size and self.is_proven:
            outputs.append(Report(report=self.report(now)))
        return outputs

    # ------------------------------------------------------------------------------------------------- PuDB's screen

    def _size(self) -> tuple[int, int]:
        return self._extent.rows, self._extent.columns

    def _enter(self, switch: bytes, now: float) -> list[SessionOutput]:
        self.is_proven = self._drawing = True
        self.due = None
        self._kept = bytearray(switch)
        self._setup, self._is_cut = 0, False
        told = self._newcomer() if self._has_printed and self._viewers else []
        self._has_printed = False
        return [*self._set_running(False, now), *self._show(_SCREEN + switch), *told]

    def _draw(self, data: bytes) -> list[SessionOutput]:
        self._extent.feed(data)
        self._kept += data
        if not self._setup and (found := self._kept.find(_HOME, 0, MAX_SETUP)) >= 0:
            self._setup = found
        if len(self._kept) > MAX_KEPT:
            self._cut()
        return self._show(data)

    def _cut(self) -> None:
        """Drop the older half, up to the begin of a drawing."""
        self._is_cut = True
        half = len(self._kept) - MAX_KEPT // 2
        drawing = self._kept.find(_HOME, half)
        del self._kept[self._setup : drawing if drawing >= 0 else half]

    # ------------------------------------------------------------------------------------------- the program's prints

    def _leave(self, now: float) -> None:
        self._drawing = self._page_is_open = False
        self.due = now + QUIET_SECONDS

    def _print(self, text: str, now: float) -> list[SessionOutput]:
        if not text:
            return []
        self._has_printed = True
        self._printed.append(text)
        if self._page_is_open:
            return self._show(_lines(text))
        # A page is long: soon after the last one, the next one waits until the program has run for a while.
        return self._open_page(now) if now - self._page_at >= PAGE_SECONDS else []

    def _open_page(self, now: float) -> list[SessionOutput]:
        """Show what the program prints in place of its debugger's screen."""
        self._page_is_open, self._page_at = True, now
        return self._show(self._page()) if self._viewers else []

    def _page(self) -> bytes:
        return _PAGE + _lines("".join(self._printed.text().splitlines(keepends=True)[-MAX_PAGE_LINES:]))

    def _newcomer(self) -> list[SessionOutput]:
        last = self._printed.last_line()
        return [Notice(text=f"the program printed: {printable(last, MAX_SHOWN)}")] if last and self._drawing else []

    def _quiet(self, now: float) -> list[SessionOutput]:
        if self._awaits_reaction:
            self._awaits_reaction = False
            return [Notice(text=NO_REACTION)]
        shown = [] if self._page_is_open else self._open_page(now)
        return [*self._set_running(True, now), *shown]

    # ------------------------------------------------------------------------------------------------------ terminals

    def _repaint(self) -> list[SessionOutput]:
        if not self._drawing:
            return self._show(self._page())
        outputs = self._show(_SCREEN + without_queries(bytes(self._kept)))
        if self._is_cut:
            outputs.append(Notice(text="the screen may be incomplete until the next step"))
            outputs.append(Write(_CTRL_L))
        return outputs

    def _typed(self, data: bytes, now: float) -> list[SessionOutput]:
        if self._running:
            # The keys would wait in the socket, and act on a stop that the user had not seen when typing them.
            return [self._lost(len(data), "the program runs, and stock PuDB takes keys only where it has stopped")]
        if self._drawing and not self._has_reacted and not self._awaits_reaction:
            self._awaits_reaction, self.due = True, now + REACTION_SECONDS
        return [Write(data), self._applied()]


def _lines(text: str) -> bytes:
    """Return text for a raw terminal, where a line feed alone doesn't return to the first column."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n").encode("utf-8", "replace")
