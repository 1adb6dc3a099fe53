"""What a stock PuDB writes: its screens and their size, and what the program prints between them.

Pure. Stock PuDB enters the alternate screen at every stop and leaves it at every step, and ``pudb.remote`` makes the
socket the program's stdout, so the switches tell drawing from printing.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_SWITCH = re.compile(rb"\x1b\[\?(?:47|1047|1049)([hl])")
_BEGUN_SWITCH = re.compile(rb"\x1b(?:\[(?:\?(?:4|47|1|10|104|1047|1049)?)?)?\Z")

_QUERY = re.compile(
    rb"\x1b\[[?>=]?[0-9;]*\$p"  # state of a mode
    rb"|\x1b\[[?>=]?[0-9;]*[cn]"  # device attributes, position of the cursor
    rb"|\x1b\[>[0-9;]*q"  # version
    rb"|\x1b\[\?u"  # keyboard protocol
    rb"|\x1b\][0-9]+;\?(?:\x07|\x1b\\)"  # colour
    rb"|\x05"
)
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)

_MOVE = re.compile(
    r"\x1b\[([0-9]*)(?:;([0-9]*))?H|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]|([\x00-\x1f]+)|([^\x00-\x1f]+)"
)
_BEGUN_MOVE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[ -/]*)?\Z")
_BEGUN_TEXT = re.compile(_BEGUN_MOVE.pattern + r"|\r\Z")

MAX_HELD = 64
"""Characters held of a sequence that is not complete; the sequences that are looked for have a dozen."""


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
    return _QUERY.sub(b"", data)


class PlainText:
    """Decoder of a program's prints that drops sequences and all control characters except line ends and tabs."""

    def __init__(self) -> None:
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """Return the text that is complete."""
        text = self._rest + self._decoder.decode(data)
        begun = _BEGUN_TEXT.search(text)
        end = begun.start() if begun and len(text) - begun.start() <= MAX_HELD else len(text)
        text, self._rest = text[:end], text[end:]
        return _SEQUENCE.sub("", text).replace("\r\n", "\n")
