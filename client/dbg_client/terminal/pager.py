"""Show a text full screen, a page at a time."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output import Output

from ..views.width import char_width
from .key_presses import ESCAPE_SECONDS

TAB = 8
"""Columns between two tab stops."""


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


class Pager:
    """Show one text until the user leaves it: with any key if it fits, else behind its end or with q."""

    def __init__(self, text: str, source: Input, screen: Output) -> None:
        self._text = text
        self._screen = screen
        self._rows: list[StyleAndTextTuples] = []
        self._columns = 0
        self._top = 0
        body = FormattedTextControl(self._body, focusable=True, show_cursor=False)
        footer = FormattedTextControl(self._footer)
        self._application: Application[None] = Application(
            layout=Layout(HSplit([Window(body, always_hide_cursor=True), Window(footer, height=1, style="reverse")])),
            key_bindings=self._bindings(),
            full_screen=True,
            input=source,
            output=screen,
        )
        self._application.ttimeoutlen = self._application.timeoutlen = ESCAPE_SECONDS

    async def run(self) -> None:
        """Return when the user has seen enough."""
        try:
            await self._application.run_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:
            return

    # ------------------------------------------------------------------------------------------------------ the screen

    @property
    def _height(self) -> int:
        return max(1, self._screen.get_size().rows - 1)

    @property
    def _last_top(self) -> int:
        return max(0, len(self._all_rows()) - self._height)

    def _all_rows(self) -> list[StyleAndTextTuples]:
        columns = max(1, self._screen.get_size().columns)
        if columns != self._columns:
            self._rows, self._columns = wrapped(self._text, columns), columns
        return self._rows

    def _body(self) -> StyleAndTextTuples:
        rows = self._all_rows()
        self._top = min(self._top, self._last_top)
        shown: StyleAndTextTuples = []
        for row in rows[self._top : self._top + self._height]:
            shown += [*row, ("", "\n")]
        return shown

    def _footer(self) -> str:
        if not self._last_top:
            return " any key goes back"
        count = len(self._all_rows())
        end = min(count, self._top + self._height)
        return f" rows {self._top + 1}-{end} of {count}   Space and Enter go on, b goes up, q goes back"

    # ---------------------------------------------------------------------------------------------------- the keyboard

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        fits = Condition(lambda: not self._last_top)
        moves: tuple[tuple[tuple[str, ...], Callable[[], int]], ...] = (
            ((" ", "f", "pagedown"), lambda: self._height),
            (("enter", "j", "down"), lambda: 1),
            (("b", "pageup"), lambda: -self._height),
            (("k", "up"), lambda: -1),
            (("home", "g"), lambda: -len(self._rows)),
        )
        for names, rows in moves:
            for name in names:
                keys.add(name, filter=~fits)(lambda event, rows=rows: self._move(event, rows()))
        for name in ("end", "G"):
            keys.add(name, filter=~fits)(lambda event: self._to_end())
        for name in ("q", "escape", "c-c", "<sigint>"):
            keys.add(name, eager=True)(_leave)
        for name in (Keys.Any, "enter", "up", "down", "pageup", "pagedown", "home", "end", "backspace", "tab"):
            keys.add(name, filter=fits)(_leave)
        return keys

    def _move(self, event: KeyPressEvent, rows: int) -> None:
        if rows > 0 and self._top >= self._last_top:
            _leave(event)
        self._top = min(max(0, self._top + rows), self._last_top)

    def _to_end(self) -> None:
        self._top = self._last_top


def _leave(event: KeyPressEvent) -> None:
    event.app.exit()
