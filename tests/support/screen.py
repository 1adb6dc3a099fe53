"""The screen of an emulated xterm: bytes in, rows of text out. Pure: a query gets no answer.

The emulation is pyte's. Around it: sequences that pyte would print or stumble over are dropped, the alternate screen is
kept apart as xterm does, and private modes (mouse, bracketed paste, …) are remembered, so that a test can see what a
program left switched on.
"""

from __future__ import annotations

import copy
import re
from typing import Any, Protocol

import pyte

TOKEN = re.compile(
    rb"[^\x1b]+"  # text
    rb"|\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    rb"|\x1b\][^\x07\x18\x1a\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, colours, clipboard
    rb"|\x1b[PX^_][^\x18\x1a\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    rb"|\x1b[ -/]+[0-~]"  # character sets, line attributes
    rb"|\x1b[0-OQ-WYZ\\`-~]"  # the other two-character sequences
    # Any of these sequences, cut short by a cancel or by the next sequence.
    rb"|(?P<cut>\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x18\x1a\x1b]*|[ -/]*)(?:[\x18\x1a]|(?=\x1b[^\\]|\x1b\x1b)))"
)

UNKNOWN_TO_PYTE = re.compile(rb"\x1b(?:\[[<=>]|[PX^_])")
"""pyte takes ``CSI > 4 m`` for underlining, and prints what is inside DCS and APC."""

ALTERNATE_SCREEN_MODES = frozenset({47, 1047, 1049})


class Cell(Protocol):
    """One character of a screen, with what it looks like."""

    data: str
    fg: str
    bg: str
    bold: bool
    reverse: bool


class Emulation(pyte.Screen):  # type: ignore[misc]  # pyte is not followed by mypy, see pyproject.toml
    """pyte's screen with an alternate screen and a memory for private modes."""

    def __init__(self, columns: int, lines: int) -> None:
        self.private_modes: set[int] = set()
        self._main: tuple[Any, Any] | None = None
        super().__init__(columns, lines)

    def set_mode(self, *modes: int, **options: Any) -> None:
        if options.get("private"):
            self.private_modes.update(modes)
            if self._main is None and ALTERNATE_SCREEN_MODES.intersection(modes):
                self._main = (copy.deepcopy(self.buffer), copy.copy(self.cursor))
                self.erase_in_display(2)
        super().set_mode(*modes, **options)

    def reset_mode(self, *modes: int, **options: Any) -> None:
        super().reset_mode(*modes, **options)
        if options.get("private"):
            self.private_modes.difference_update(modes)
            if self._main is not None and ALTERNATE_SCREEN_MODES.intersection(modes):
                self.buffer, self.cursor = self._main
                self._main = None
                self.ensure_hbounds()
                self.ensure_vbounds()

    def select_graphic_rendition(self, *attributes: int, **options: Any) -> None:
        """Set colours and attributes; a private form (``CSI ? 4 m``) is a query and changes none."""
        if not options.get("private"):
            super().select_graphic_rendition(*attributes)


class VirtualScreen:
    """The screen that a person would see after the bytes fed so far."""

    def __init__(self, rows: int, cols: int) -> None:
        self._emulation = Emulation(cols, rows)
        self._stream = pyte.ByteStream(self._emulation)
        self._unfinished = b""
        self._rows: list[str] | None = None
        """The text of each row, kept for the next question until the screen changes."""
        self.refused: list[bytes] = []
        """Sequences that the emulation could not carry out; they changed nothing."""

    def feed(self, data: bytes) -> None:
        """Show ``data``; a sequence cut at its end is kept until the rest comes."""
        self._rows = None
        pending = self._unfinished + data
        position = 0
        while match := TOKEN.match(pending, position):
            if match["cut"] is None:
                # A cancel with nothing to cancel is invisible; pyte would lose what follows.
                self._show(match.group().translate(None, b"\x18\x1a"))
            position = match.end()
        self._unfinished = pending[position:]

    def _show(self, token: bytes) -> None:
        if UNKNOWN_TO_PYTE.match(token):
            return
        try:
            self._stream.feed(token)
        except (TypeError, ValueError, IndexError, KeyError):
            self.refused.append(token)

    def resize(self, rows: int, cols: int) -> None:
        self._rows = None
        self._emulation.resize(rows, cols)

    @property
    def rows(self) -> list[str]:
        if self._rows is None:
            self._rows = [str(row).rstrip() for row in self._emulation.display]
        return list(self._rows)

    @property
    def cursor(self) -> tuple[int, int]:
        return self._emulation.cursor.y, self._emulation.cursor.x

    @property
    def cursor_hidden(self) -> bool:
        return bool(self._emulation.cursor.hidden)

    @property
    def private_modes(self) -> frozenset[int]:
        """The private modes left switched on: 1000-1006 mouse, 1049 alternate screen, 2004 paste."""
        return frozenset(self._emulation.private_modes)

    def cells(self, row: int) -> list[Cell]:
        cells = self._emulation.buffer[row]
        return [cells[column] for column in range(self._emulation.columns)]

    def colours(self, row: int) -> list[tuple[str, str]]:
        """Return foreground and background of each cell of a row: a name, or six hexadecimal digits for 256 colours."""
        cells = self._emulation.buffer[row]
        return [(cells[column].fg, cells[column].bg) for column in range(self._emulation.columns)]
