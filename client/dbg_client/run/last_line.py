"""A line of ours below what a job prints on a terminal, which is gone before the job's next byte. Pure."""

from __future__ import annotations

import re

from dbg_client.views.table import char_width

MAX_BELOW = 40
"""Rows that a job's nested bars take below its cursor; a job that uses more draws a screen of its own."""

_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_MOVE = re.compile(rb"[\n\v\f]|\x1b(?:[DEM78c]|\[[0-?]*[ -/]*[@-~])")
_PLAIN_ASCII = re.compile(rb"[ -~]*")
_UP, _DOWN = frozenset(b"AF"), frozenset(b"BEe")
_LOSES_THE_ROW = frozenset(b"HfdrsuLMSTp")
"""Final bytes of sequences after which the job's row is unknown: absolute moves, regions, saved places, scrolling."""

_OTHER_SCREEN = re.compile(rb"\x1b\[\?[0-9;]*(?:47|1047|1048|1049)[0-9;]*[hl]")


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
