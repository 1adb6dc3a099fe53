"""The text of a full-screen page: its rows, the part in sight, and what is searched for. Pure."""

from __future__ import annotations

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.layout.utils import explode_text_fragments

from dbg_client.views.width import char_width


def wrapped(text: str, columns: int) -> list[StyleAndTextTuples]:
    """Return the rows of a text whose only control sequences are colours; a line that is too long becomes several."""
    rows: list[StyleAndTextTuples] = []
    for line in split_lines(to_formatted_text(ANSI(text.rstrip("\n")))):
        row: StyleAndTextTuples = []
        free = columns
        for style, char, *_ in explode_text_fragments(line):
            width = char_width(char)
            if width > free:
                rows.append(row)
                row, free = [], columns
            row.append((style, char))
            free -= width
        rows.append(row)
    return rows


class PageText:
    """Keep the part of a text that is in sight: ``height`` rows from ``top``, which never passes the last full page."""

    def __init__(self, text: str) -> None:
        self.top = 0
        self._text = text
        self._rows: list[StyleAndTextTuples] = []
        self._size = (0, 0)
        self._sought = ""
        self._match: int | None = None

    @property
    def count(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    @property
    def end(self) -> int:
        """Return the number of the last row in sight, counted from 1."""
        return min(self.count, self.top + self._size[0])

    @property
    def fits(self) -> bool:
        """Tell whether all rows are in sight."""
        return not self.last_top

    @property
    def last_top(self) -> int:
        """Return the top of the last full page."""
        return max(0, self.count - self._size[0])

    def measure(self, height: int, columns: int) -> None:
        """Take note of the size that there is."""
        if columns != self._size[1]:
            self._rows = wrapped(self._text, columns)
        self._size = height, columns
        self.move(0)

    def move(self, rows: int) -> None:
        """Go down by so many rows, or up if negative; stops at the ends."""
        self.top = min(max(0, self.top + rows), self.last_top)

    def shown(self) -> StyleAndTextTuples:
        """Return the rows in sight, what is sought in reverse."""
        fragments: StyleAndTextTuples = []
        for row in self._rows[self.top : self.top + self._size[0]]:
            fragments += [*self._marked(row), ("", "\n")]
        return fragments

    def seek(self, text: str) -> bool:
        """Make ``text`` what is sought, in any case of its letters (empty: nothing), and go to the next row with it."""
        self._sought, self._match = text.lower(), None
        return self.next_match(1)

    def next_match(self, step: int) -> bool:
        """Bring the next row with what is sought to the top (``step`` -1: the one before), around the ends.

        Tells whether there is one.
        """
        if not self._sought:
            return False
        in_sight = self._match is not None and self.top <= self._match < self.end
        begin = self._match if in_sight and self._match is not None else self.top - step
        for offset in range(1, self.count + 1):
            row = (begin + step * offset) % self.count
            if self._sought in _plain(self._rows[row]).lower():
                self._match, self.top = row, min(row, self.last_top)
                return True
        return False

    def _marked(self, row: StyleAndTextTuples) -> StyleAndTextTuples:
        text = _plain(row).lower()
        at = text.find(self._sought) if self._sought and len(text) == len(row) else -1
        if at < 0:
            return row
        marked = list(row)
        while at >= 0:
            for place in range(at, at + len(self._sought)):
                marked[place] = (f"{marked[place][0]} reverse", marked[place][1])
            at = text.find(self._sought, at + len(self._sought))
        return marked


def _plain(row: StyleAndTextTuples) -> str:
    return "".join(fragment[1] for fragment in row)
