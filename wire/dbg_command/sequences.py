"""Know where a rank's terminal output stands, and keep what is not drawing away from the user's terminal.

A rank's output is hostile: what a terminal *answers* would arrive as keystrokes, from every terminal that watches,
and what changes it for good (its title, clipboard, tab stops, window size, character encoding) outlives the session.
So :class:`QueryFilter` passes text and the sequences that are known to draw, the ones in the terminfo entry of xterm,
and drops the rest. Terminals are taken to speak UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_SEQUENCE = 4096
"""Bytes of one escape sequence, the longest being a hyperlink; browsers stop at about 2,000 for an address."""

PRIVATE_MODES = frozenset({1, 5, 7, 12, 25, 47, 66, 1000, 1002, 1003, 1004, 1006, 1015, 1047, 1048, 1049, 2004, 2026})
"""DEC private modes that a rank may set: each of them is undone when the terminal is given back."""

_DRAWING_CSI = frozenset(
    b"@ A B C D E F G H I J K L M P S T X Z ` a b d e f m r s u h l ?h ?l !p".split()
)  # private marker, intermediates, final byte
_DRAWING_ESCAPES = frozenset(
    [b"\x1b" + rest for rest in (b"7", b"8", b"=", b">", b"D", b"E", b"M")]
    + [b"\x1b" + slot + charset for slot in (b"(", b")") for charset in (b"0", b"A", b"B")]
)
_INSERT_MODE = b"4"  # the one ANSI mode that draws; others lock the keyboard or echo locally
_SCROLLBACK = b"3"  # of "erase display": what scrolled away is the user's

_REPLACEMENT = "\ufffd".encode()  # what a terminal itself shows for a byte that is not UTF-8

# Control characters inside a sequence are obeyed as if they stood before it, so they don't end it. Cancel,
# substitute and escape do.
_C0 = rb"\x00-\x17\x19\x1c-\x1f\x7f"
_UTF8 = (
    rb"\xc2[\xa0-\xbf]|[\xc3-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    rb"|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
_END = rb"[\x18\x1a]|\x1b\\|(?=\x1b[^\\])"
_COMPLETE = re.compile(
    rb"(?P<text>(?:[\x00-\x1a\x1c-\x7f]+|" + _UTF8 + rb")+)"
    rb"|(?P<c1>\xc2[\x80-\x9f])"
    rb"|(?P<csi>\x1b[" + _C0 + rb"]*\[[" + _C0 + rb" -?]*[@-~])"
    rb"|(?P<osc>\x1b[" + _C0 + rb"]*\][^\x07\x18\x1a\x1b]*(?:\x07|" + _END + rb"))"
    rb"|(?P<string>\x1b[" + _C0 + rb"]*[PX^_k][^\x18\x1a\x1b]*(?:" + _END + rb"))"
    rb"|(?P<escape>\x1b[" + _C0 + rb"]*(?:[0-OQ-WYZ\\`-jl-~]|[ -/][" + _C0 + rb" -/]*[0-~]))"
)
_BEGUN = re.compile(
    rb"(?P<begun>\x1b[" + _C0 + rb"]*"
    rb"(?:\[[" + _C0 + rb" -?]*|\][^\x07\x18\x1a\x1b]*\x1b?|[PX^_k][^\x18\x1a\x1b]*\x1b?|[" + _C0 + rb" -/]*))"
    rb"|(?P<utf8>[\xc2-\xdf]|\xe0[\xa0-\xbf]?|[\xe1-\xec\xee\xef][\x80-\xbf]?|\xed[\x80-\x9f]?"
    rb"|\xf0(?:[\x90-\xbf][\x80-\xbf]?)?|[\xf1-\xf3][\x80-\xbf]{0,2}|\xf4(?:[\x80-\x8f][\x80-\xbf]?)?)"
)
_KIND = re.compile(rb"\x1b[" + _C0 + rb"]*([ -/\[\]PX^_k]?)")
_CONTROLS = re.compile(rb"[" + _C0 + rb"]")
_CSI_PARTS = re.compile(rb"\x1b\[([<-?]?)([0-9:;]*)([ -/]*)([@-~])")
_LONG_NUMBER = re.compile(rb"[0-9]{5}")  # no screen has so many cells; terminals have hung on repeating that often
_NO_TEXT = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_COLOR = re.compile(rb"\x1b\[[0-9:;]{0,40}m")
# Only web pages, and the end of a link: a click on a `file:` or a program's own scheme acts on the user's machine.
_HYPERLINK = re.compile(rb"\x1b\]8;[ -:<-~]*;(?:(?i:https?)://[ -~]*)?(?:\x07|\x1b\\)")


class _Pieces:
    """Cut a stream into text, complete sequences, and what is broken; keep the unfinished end for the next feed."""

    def __init__(self) -> None:
        self.rest = b""
        self._oversized = False

    def feed(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield (kind, bytes) of all that is complete.

        Kinds are ``text``, ``c1``, ``csi``, ``osc``, ``string``, ``escape``, ``invalid`` (not UTF-8), ``broken`` (a
        sequence that something else interrupted) and ``oversized``, whose bytes are not all there.
        """
        data = self.rest + data
        self.rest = b""
        position = 0
        while position < len(data):
            kind, end = _piece(data, position)
            if end == len(data) and kind in ("begun", "utf8"):
                self._keep(data[position:])
                return
            piece = data[position:end]
            if self._oversized or (kind != "text" and len(piece) > MAX_SEQUENCE):
                self._oversized = False
                kind = "oversized"
            yield _INTERRUPTED.get(kind, kind), piece
            position = end

    def _keep(self, piece: bytes) -> None:
        self._oversized = self._oversized or len(piece) > MAX_SEQUENCE
        if self._oversized and (kind := _KIND.match(piece)):
            # The beginning of a sequence says what ends it; a trailing escape may be half of that end.
            last = b"\x1b" if len(piece) > 1 and piece.endswith(b"\x1b") else b""
            piece = b"\x1b" + kind[1] + last
        self.rest = piece


_INTERRUPTED = {"begun": "broken", "utf8": "invalid"}


def _piece(data: bytes, position: int) -> tuple[str, int]:
    match = _COMPLETE.match(data, position) or _BEGUN.match(data, position)
    if match is None:
        return "invalid", position + 1
    return match.lastgroup or "", match.end()


class StreamScanner:
    """Follow a terminal output stream, to know when something else may be written in between."""

    def __init__(self) -> None:
        self._pieces = _Pieces()

    @property
    def at_rest(self) -> bool:
        """Say whether the stream stands between complete escape sequences and characters."""
        return not self._pieces.rest

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        for _ in self._pieces.feed(data):
            pass


class QueryFilter:
    """Pass what draws, drop what makes a terminal answer or changes it for good.

    Text, control characters (except ENQ, a query), drawing sequences, and hyperlinks to http and https pass unchanged.
    Dropped are all other hyperlinks (their text stays), reports and queries, window and title operations, clipboard,
    printer, keyboard encodings (the escape prefix must stay readable), graphics and other strings, 8-bit controls,
    erasing the scrollback, tab stops, full reset and change of encoding. Bytes that are not UTF-8 become U+FFFD.

    The output of one feed ends between sequences: an unfinished one is held back, at most MAX_SEQUENCE bytes, and a
    longer one is dropped however long it gets. After a gap in the stream take a new filter.
    """

    def __init__(self) -> None:
        self._pieces = _Pieces()

    @property
    def held_back(self) -> int:
        """Return how many bytes of an unfinished sequence wait for the rest of it."""
        return len(self._pieces.rest)

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the rank's output; return what may go to the terminal."""
        return b"".join(_harmless(kind, piece) for kind, piece in self._pieces.feed(data))


class TextFilter:
    """Pass text, line ends, tabs, carriage returns and, if wanted, colours; drop all other controls and sequences."""

    def __init__(self, *, colors: bool = True) -> None:
        self._pieces = _Pieces()
        self._colors = colors

    def feed(self, data: bytes) -> str:
        """Take the next bytes; return what may go among lines of text."""
        return "".join(_plain(kind, piece, self._colors) for kind, piece in self._pieces.feed(data))


def _plain(kind: str, piece: bytes, colors: bool) -> str:
    if kind == "text":
        return _NO_TEXT.sub(b"", piece).decode()
    if kind == "invalid":
        return _REPLACEMENT.decode()
    return piece.decode() if colors and kind == "csi" and _COLOR.fullmatch(piece) else ""


def _harmless(kind: str, piece: bytes) -> bytes:
    if kind == "text":
        return piece.replace(b"\x05", b"")
    if kind == "invalid":
        return _REPLACEMENT
    if kind == "osc":
        return piece if _HYPERLINK.fullmatch(piece) else b""
    if kind not in ("csi", "escape", "broken"):
        return b""
    controls = b"".join(_CONTROLS.findall(piece)).replace(b"\x05", b"")
    sequence = _CONTROLS.sub(b"", piece)
    if kind == "csi":
        return controls + _drawing_csi(sequence)
    return controls + (sequence if sequence in _DRAWING_ESCAPES else b"")


def _drawing_csi(sequence: bytes) -> bytes:
    parts = _CSI_PARTS.fullmatch(sequence)
    if parts is None or _LONG_NUMBER.search(sequence):
        return b""
    marker, parameters, intermediates, final = parts.groups()
    function = marker + intermediates + final
    if function not in _DRAWING_CSI:
        return b""
    numbers = [number.lstrip(b"0") for number in parameters.split(b";")]
    if function in (b"?h", b"?l"):
        return _allowed_modes(sequence, numbers, final)
    forbidden = (
        (function in (b"h", b"l") and set(numbers) != {_INSERT_MODE})
        or (function == b"J" and _SCROLLBACK in numbers)
        or (function == b"T" and len(numbers) > 1)  # with five numbers it begins mouse highlighting, and waits
    )
    return b"" if forbidden else sequence


def _allowed_modes(sequence: bytes, numbers: list[bytes], final: bytes) -> bytes:
    allowed = [number for number in numbers if number.isdigit() and int(number) in PRIVATE_MODES]
    if len(allowed) == len(numbers):
        return sequence
    return b"\x1b[?" + b";".join(allowed) + final if allowed else b""
