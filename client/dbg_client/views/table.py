"""Text in columns: the width of text in a terminal, as an upper bound, and rows as aligned lines. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

_WIDE = frozenset({"W", "F", "A"})  # ambiguous characters count as wide because some terminals draw them so


def text_width(text: str) -> int:
    """Return the maximum columns of printable ``text``."""
    return sum(char_width(char) for char in text)


def char_width(char: str) -> int:
    """Return the maximum columns of one printable character."""
    category = unicodedata.category(char)
    if category in ("Mn", "Me"):
        return 0
    # Terminals and Unicode versions disagree on symbols: emoji, flags, hexagrams.
    return 2 if category == "So" or unicodedata.east_asian_width(char) in _WIDE else 1


def clip(text: str, width: int) -> str:
    """Return printable ``text``, cut with an ellipsis if it is wider than ``width`` columns."""
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
    """Return aligned lines for the header and each row, without columns that are empty in all rows.

    ``paint`` gets the numbers of a row and a column, and the text there, and returns the text in a colour.
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
