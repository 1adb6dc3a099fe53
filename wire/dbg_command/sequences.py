"""Filters that pass only drawing sequences to the user's terminal.

A rank's output is not trusted. If it contains a query, each terminal that watches sends an answer, which would arrive
as keystrokes. Permanent changes of the terminal (title, clipboard, tab stops, window size, character encoding) outlive
the session. So :class:`QueryFilter` passes only text and the drawing sequences in xterm's terminfo entry. An escape
character passes only at the beginning of such a sequence. Terminals are assumed to use UTF-8.
"""

from __future__ import annotations

import codecs
import re

MAX_SEQUENCE = 4096
"""Maximum number of characters of one escape sequence. The longest is a hyperlink; browsers accept URLs of about 2,000
characters."""

PRIVATE_MODES = frozenset({1, 5, 7, 12, 25, 47, 66, 1000, 1002, 1003, 1004, 1006, 1015, 1047, 1048, 1049, 2004, 2026})
"""DEC private modes that a rank may set: each of them is undone when the terminal is restored."""

_PIECE = re.compile(
    r"(?P<text>[^\x1b]+)"
    r"|(?P<whole>\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_k][^\x1b]*\x1b\\"
    r"|[ -/]*[0-OQ-WYZ\\`-jl-~]))"
    r"|(?P<begun>\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*(?:\x1b\Z)?|[PX^_k][^\x1b]*(?:\x1b\Z)?|[ -/]*))"
)
"""Text, a complete sequence, or the beginning of a sequence that is interrupted or that continues later."""

_KIND = re.compile(r"\x1b[ -/\[\]PX^_k]?")

_NUMBER = "[0-9]{0,4}"  # no screen has 10,000 rows or columns; larger repeat counts have made terminals hang
_MODE = f"(?:{'|'.join(map(str, sorted(PRIVATE_MODES)))})"
_DRAWS = re.compile(
    r"\x1b[78=>DEM]|\x1b[()][0AB]"
    rf"|\x1b\[{_NUMBER}(?:[:;]{_NUMBER})*[@A-IK-MPSXZ`abdefmrsu]"
    # Not 3J, because the scrollback, which it erases, belongs to the user. Not `T` with five numbers: it begins mouse
    # highlighting, and the terminal then waits for a reply. Among the ANSI modes only 4 concerns drawing; others lock
    # the keyboard or echo locally.
    rf"|\x1b\[(?:[0-2]?J|{_NUMBER}T|4[hl]|!p|\?{_MODE}(?:;{_MODE})*[hl])"
    # Only links to web pages, and the end of a link. A click on any other link, such as `file:`, could open a file or
    # start a program on the user's machine.
    r"|\x1b\]8;[ -:<-~]*;(?:(?i:https?)://[ -~]*)?(?:\x07|\x1b\\)"
)
_COLORS = re.compile(r"\x1b\[[0-9:;]{0,40}m")
_NOTHING = re.compile(r"(?!)")

_ASKS = re.compile(r"[\x05\x80-\x9f]")
"""Control characters that make a terminal answer, or begin a sequence in an 8-bit terminal."""

_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class _Filter:
    """Filter that passes text without some control characters, and complete sequences that match a pattern.

    Bytes that are not UTF-8 become U+FFFD. The output ends between characters and sequences: an unfinished sequence is
    held back, up to MAX_SEQUENCE characters; a longer one is dropped to its end.
    """

    def __init__(self, passing: re.Pattern[str], dropped: re.Pattern[str]) -> None:
        self._passing = passing
        self._dropped = dropped
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._is_too_long = False

    @property
    def held_back(self) -> int:
        """Number of characters of an unfinished sequence that wait for the rest of it."""
        return len(self._rest)

    def passed(self, data: bytes) -> str:
        """Filter the next bytes and return the text that passes."""
        text, self._rest = self._rest + self._decoder.decode(data), ""
        kept = []
        for found in _PIECE.finditer(text):
            piece = found.group()
            if found.lastgroup == "text":
                kept.append(self._dropped.sub("", piece))
            elif found.lastgroup == "begun" and found.end() == len(text):
                self._hold(piece)
            else:
                if not self._is_too_long and len(piece) <= MAX_SEQUENCE and self._passing.fullmatch(piece):
                    kept.append(piece)
                self._is_too_long = False
        return "".join(kept)

    def _hold(self, piece: str) -> None:
        self._is_too_long = self._is_too_long or len(piece) > MAX_SEQUENCE
        kind = _KIND.match(piece)
        if self._is_too_long and kind is not None:
            # Only the beginning is kept, because it determines how the sequence ends. An escape at the piece's end is
            # kept, too: it may be the first half of `ESC \`, which ends a sequence.
            piece = kind.group() + ("\x1b" if len(piece) > 1 and piece.endswith("\x1b") else "")
        self._rest = piece


class QueryFilter(_Filter):
    """Filter that passes drawing sequences, and drops those that make a terminal answer or change it for good.

    Text, control characters (except ENQ, a query), drawing sequences, and hyperlinks to http and https pass unchanged.
    Other hyperlinks are dropped, but not their text. Also dropped are reports and queries, window and title operations,
    clipboard, printer, graphics and other strings, 8-bit controls, erasing the scrollback, tab stops, full reset and
    change of encoding. Sequences that change the encoding of keys are dropped, so that ``dbg-attach`` still recognises
    its prefix key. After a gap in the stream, use a new filter.
    """

    def __init__(self) -> None:
        super().__init__(_DRAWS, _ASKS)

    def feed(self, data: bytes) -> bytes:
        """Filter the next bytes of the rank's output; return bytes for the terminal."""
        return self.passed(data).encode()


class TextFilter(_Filter):
    """Filter that passes text, line ends, tabs, carriage returns and, if ``colors``, colours."""

    def __init__(self, *, colors: bool = True) -> None:
        super().__init__(_COLORS if colors else _NOTHING, _NO_TEXT)

    def feed(self, data: bytes) -> str:
        """Filter the next bytes; return text for lines of output."""
        return self.passed(data)
