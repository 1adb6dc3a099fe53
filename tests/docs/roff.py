"""Manual pages as ``man`` reads them. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

_ESCAPES = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}
"""What ``man`` would show as another character, which nobody could copy into a shell."""

_WIDTH = 100
"""Columns of the page's own source, so that a change shows as few lines."""


def escaped(text: str) -> str:
    """Return a text in which ``man`` sees no request and no special character."""
    shown = "".join(map(_escaped_character, " ".join(text.split())))
    return f"\\&{shown}" if shown.startswith(".") else shown


def _escaped_character(character: str) -> str:
    return _ESCAPES.get(character, character) if character.isascii() else f"\\[u{ord(character):04X}]"


class ManPage:
    """Collect the sections of one page."""

    def __init__(self, name: str, summary: str) -> None:
        title = escaped(name.upper())
        self._lines = [
            f'.TH {title} 1 "" "dbg\\-broker" "User Commands"',
            ".nh",
            ".SH NAME",
            f"{escaped(name)} \\- {escaped(summary)}",
        ]

    def section(self, title: str) -> None:
        """Begin a section."""
        self._lines.append(f".SH {title.upper()}")

    def subsection(self, title: str) -> None:
        """Begin a part of a section."""
        self._lines.append(f".SS {escaped(title)}")

    def synopsis(self, *usages: str) -> None:
        """Add usage lines, the first word of each in bold."""
        for at, usage in enumerate(usages):
            command, _, rest = usage.partition(" ")
            self._lines += [".br"] if at else []
            self._lines.append(f"\\fB{escaped(command)}\\fR {escaped(rest)}".rstrip())

    def paragraphs(self, text: str) -> None:
        """Add text whose paragraphs are parted by empty lines."""
        for paragraph in filter(None, text.split("\n\n")):
            self._lines.append(".PP")
            self._lines += self._wrapped(paragraph)

    def entries(self, entries: Iterable[tuple[str, str]]) -> None:
        """Add a list: each term in bold, and below it what it means."""
        for term, meaning in entries:
            self._lines += [".TP", f"\\fB{escaped(term)}\\fR", *self._wrapped(meaning)]

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    @staticmethod
    def _wrapped(text: str) -> list[str]:
        wrapped = textwrap.wrap(" ".join(text.split()), _WIDTH, break_on_hyphens=False, break_long_words=False)
        return [escaped(line) for line in wrapped]
