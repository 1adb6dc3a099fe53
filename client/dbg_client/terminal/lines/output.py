"""What stands above the prompt: lines of output, and the source round the current one. Pure."""

from __future__ import annotations

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

from dbg_client.views.session_status import show_place
from dbg_client.views.width import char_width
from dbg_wire.errors import printable
from dbg_wire.messages import Source
from dbg_wire.sequences import TextFilter

MAX_SHOWN = 1000
"""Characters of one line; no terminal is wider."""


def show_source(source: Source, columns: int, lexer: Lexer) -> StyleAndTextTuples:
    """Return the place, then each line with its number, ``B`` at breakpoints and ``->`` at the current one.

    Lines are cut to ``columns``, and nothing in them acts on the terminal.
    """
    shown: StyleAndTextTuples = [("class:source.place", _clip(show_place(source.where) or "", columns)), ("", "\n")]
    lines = [printable(line.rstrip("\r\n").expandtabs(), MAX_SHOWN) for line in source.lines]
    highlighted = lexer.lex_document(Document("\n".join(lines)))
    digits = len(str(source.first + len(lines)))
    for index in range(len(lines)):
        number = source.first + index
        current = number == source.where.line
        mark = f"{number:>{digits}} {'B' if number in source.breakpoints else ' '}{'->' if current else '  '} "
        shown.append(("class:source.current" if current else "class:source.number", mark))
        shown += _clipped(highlighted(index), columns - len(mark))
        shown.append(("", "\n"))
    return shown


def _clipped(fragments: StyleAndTextTuples, room: int) -> StyleAndTextTuples:
    kept: StyleAndTextTuples = []
    for style, text, *_ in fragments:
        part = _clip(text, room)
        room -= sum(map(char_width, part))
        kept.append((style, part))
        if part != text:
            break
    return kept


def _clip(text: str, room: int) -> str:
    for end, char in enumerate(text):
        room -= char_width(char)
        if room < 0:
            return text[:end]
    return text


MAX_PARTIAL = 4096
"""Characters of a line without an end that are kept for the prompt's line; a longer one is broken here."""


class Lines:
    """Hand out whole lines; ``partial`` is the one that has begun, and belongs before the prompt."""

    def __init__(self) -> None:
        self._filter = TextFilter()
        self.partial = ""

    def feed(self, data: bytes) -> str:
        """Take the next bytes; return the lines that are complete, each with its end."""
        text = self.partial + self._filter.feed(data)
        whole, end, self.partial = text.rpartition("\n")
        if len(self.partial) > MAX_PARTIAL:
            whole, end, self.partial = text, "\n", ""
        # A progress bar draws over itself: what it said last is its line.
        return "".join(f"{_last(line)}\n" for line in whole.split("\n")) if end else ""

    @property
    def shown(self) -> str:
        """Return the line that has begun, as it looks now."""
        return _last(self.partial)

    def cut(self) -> str:
        """Begin anew after a gap; return the line that had begun, with an end."""
        left, self.partial = self.shown, ""
        self._filter = TextFilter()
        return f"{left}\n" if left else ""


def _last(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
