"""Text in columns: how wide it is in a terminal, never fewer than it takes, and rows as aligned lines. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

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


def padded(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the rows with each column as wide as its widest text."""
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    return [[text + " " * (width - text_width(text)) for text, width in zip(row, widths, strict=True)] for row in rows]


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], paint: Callable[[int, int, str], str] | None = None
) -> list[str]:
    """Return a line for the header and one for each row, aligned; a column without a text in any row is left out.

    ``paint`` gets the number of a row, that of a column, and the text there, and returns it in a colour.
    """
    used = [column for column in range(len(header)) if any(row[column] for row in rows)]
    kept = [[row[column] for column in used] for row in (header, *rows)]
    cells = padded(kept)
    if paint is not None:
        for number, (texts, row) in enumerate(zip(kept[1:], cells[1:], strict=True)):
            row[:] = [
                paint(number, column, text) + cell[len(text) :]
                for column, text, cell in zip(used, texts, row, strict=True)
            ]
    return ["  ".join(row).rstrip() for row in cells]
