"""Characters that a locale may not have, and what is written in their place.

A stream with the error handler HANDLER writes what its encoding lacks as look-alikes, or else escaped. Pure.
"""

from __future__ import annotations

import codecs

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
