"""Texts within bounds: of a value, with its beginning, end and length, of an exception, and of printed output."""

from __future__ import annotations

from typing import Any

from dbg_wire.limits import MAX_TEXT

MAX_VALUE_TEXT = 4096
"""Characters of a value's text: two screens, and a quarter of what the protocol allows in one string."""

HEAD, TAIL = 2600, 900
"""Characters of the beginning and the end of a longer text; the rest of MAX_VALUE_TEXT is for length and remark."""

MAX_REMARK = 400
"""Characters of the remark after a text."""


class ValueText:
    """A text that is written piece by piece; only what will be shown is kept."""

    def __init__(self) -> None:
        self.head = ""
        self._tail = ""
        self._length = 0

    def write(self, piece: str) -> None:
        """Add a piece of any length."""
        self._length += len(piece)
        room = HEAD - len(self.head)
        if room > 0:
            self.head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail = (self._tail + piece[-TAIL:])[-TAIL:]

    def write_ends(self, value: Any) -> None:
        """Add the literal of a long string or buffer, without the literal of the whole."""
        # Each end is as long as the part that is shown, so the text between the ends is only counted.
        self.write(repr(value[:HEAD]))
        self._length += len(value) - HEAD - TAIL - len(repr(value[:0]))
        self.write(repr(value[-TAIL:]))

    def compose(self, *, whole: bool, remark: str) -> str:
        """Return the text, abbreviated if it is too long or not ``whole``, with ``remark`` in brackets after it."""
        text = self._abbreviated(whole=whole)
        if remark:
            text += f" [{remark[:MAX_REMARK]}]" if text else f"[{remark[:MAX_REMARK]}]"
        # A lone surrogate can't be sent as UTF-8. One character replaces it, so the text stays within its bound.
        return text.encode("utf-8", "replace").decode()

    def _abbreviated(self, *, whole: bool) -> str:
        if not whole:
            return f"{self.head} …" if self.head else ""
        if self._length <= HEAD + TAIL:
            return self.head + self._tail
        return f"{self.head} … {self._length:,} characters in all … {self._tail}"


MAX_ANSWER = MAX_TEXT // 4
"""Characters of one answer's text: a screenful or two; longer answers of hundreds of ranks are not read."""


def error_text(error: BaseException) -> str:
    """Return the class and the message of an exception, whatever its ``str`` does; of any length."""
    try:
        text = str(error)
    except BaseException as worse:
        # A str() that raises SystemExit, or that never ends and is interrupted, gets an answer as well.
        text = f"its str raises {type(worse).__name__}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def abridged(text: str) -> str:
    """Return a text that fits into an answer, without its middle if it is too long."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    if len(clean) <= MAX_ANSWER:
        return clean
    half = MAX_ANSWER // 2 - 20
    return f"{clean[:half]} … [{len(clean)} characters] … {clean[-half:]}"
