"""How many columns text takes in a terminal, never fewer than it does. Pure."""

from __future__ import annotations

import unicodedata

_WIDE = frozenset({"W", "F", "A"})  # ambiguous counts as wide: some terminals draw it so


def text_width(text: str) -> int:
    """Return the columns that printable ``text`` takes at most."""
    return sum(char_width(char) for char in text)


def char_width(char: str) -> int:
    """Return the columns that one printable character takes at most."""
    category = unicodedata.category(char)
    if category in ("Mn", "Me"):
        return 0
    # Terminals and Unicode versions disagree on symbols: emoji, flags, hexagrams.
    return 2 if category == "So" or unicodedata.east_asian_width(char) in _WIDE else 1


def clip(text: str, width: int) -> str:
    """Return printable ``text``, cut off if it takes more than ``width`` columns; an ellipsis says so."""
    if text_width(text) <= width:
        return text
    ellipsis = "…" if width > text_width("…") else ""
    left = width - text_width(ellipsis)
    kept = ""
    for char in text:
        left -= char_width(char)
        if left < 0:
            break
        kept += char
    return kept + ellipsis
