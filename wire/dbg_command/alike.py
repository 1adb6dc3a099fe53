"""What is much alike: characters that a locale has in place of ours, and the known word for a mistyped one. Pure.

A stream with the error handler HANDLER writes what its encoding lacks as look-alikes, or else escaped.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

HANDLER = "dbg-look-alikes"
"""The name of the error handler, for ``reconfigure`` of a stream."""

LOOK_ALIKES = {
    **dict.fromkeys("─━═", "-"),
    **dict.fromkeys("│┃║├┝┠┣╠", "|"),
    **dict.fromkeys("└┗╚", "`"),
    **dict.fromkeys("┌┐┘┬┴┼┤", "+"),
    **dict.fromkeys("→▶", ">"),
    **dict.fromkeys("←◀", "<"),
    **dict.fromkeys("\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}", "'"),
    **dict.fromkeys("“”", '"'),
    **dict.fromkeys("\N{EN DASH}\N{EM DASH}", "-"),
    **dict.fromkeys("·•", "*"),
    "…": "...",
    "\N{MULTIPLICATION SIGN}": "x",
    "≤": "<=",
    "≥": ">=",
}
"""Characters of ours that a locale may not have, and what is written in their place."""


def look_alike(text: str, encoding: str) -> str:
    """Return the text with what an encoding lacks replaced, so that it can be written."""
    try:
        return text.encode(encoding, HANDLER).decode(encoding)
    except (LookupError, UnicodeError):
        return text.encode("ascii", HANDLER).decode("ascii")


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(LOOK_ALIKES.get(char) or _escaped(char) for char in lacking), error.end


def _escaped(char: str) -> str:
    return char.encode("ascii", "backslashreplace").decode("ascii")


codecs.register_error(HANDLER, _replaced)


MIN_LIKENESS = 0.7
"""How alike two words are, from 0 to 1, for one to be offered for the other; a slip in a short verb leaves 0.85."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like this one, the first of equals; None if none is much like it."""
    from difflib import SequenceMatcher  # loaded for mistakes alone

    likeness = {one: SequenceMatcher(None, one, word).ratio() for one in known}
    best = max(likeness, key=likeness.__getitem__, default=None)
    return best if best is not None and likeness[best] >= MIN_LIKENESS else None
