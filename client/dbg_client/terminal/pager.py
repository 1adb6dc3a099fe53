"""A pager: a text full screen, with search; what is typed there is kept away from the debugger."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output import Output

from dbg_client.terminal.prompt_keys import ESCAPE_SECONDS, PrefixKey, key_bytes
from dbg_client.views.table import char_width
from dbg_wire.command_line.look_alikes import look_alike
from dbg_wire.errors import printable

WORD_SECONDS = 0.5
"""Seconds after a dropped key in which letters, ``q`` among them, belong to the same word: somebody types a command."""

MAX_NAMED = 12
"""Characters of a paste that are named when it is dropped."""

COMMAND_KEY = ":"


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


class Pager:
    """Show one text until the user leaves it with q or Esc, with ``:`` for the next command, or with the prefix.

    Keys that mean nothing here are dropped. ``prefix`` is the byte of the escape key, None for no such key.
    """

    def __init__(self, text: str, source: Input, screen: Output, prefix: bytes | None = None) -> None:
        self._text = PageText(look_alike(text, screen.encoding()))
        self._source = source
        self._screen = screen
        self._prefix_key = PrefixKey(prefix)
        self._sought: str | None = None  # what is being typed behind `/`
        self._note = ""
        self._dropped_at = float("-inf")
        body = FormattedTextControl(self._body, focusable=True, show_cursor=False)
        footer = FormattedTextControl(self._footer)
        self._application: Application[bytes] = Application(
            layout=Layout(HSplit([Window(body, always_hide_cursor=True), Window(footer, height=1, style="reverse")])),
            key_bindings=self._bindings(),
            full_screen=True,
            input=source,
            output=screen,
        )
        self._application.ttimeoutlen = self._application.timeoutlen = ESCAPE_SECONDS

    async def run(self) -> bytes:
        """Return when the user leaves, with the keys that are for the session: the prefix and what follows it.

        Keys that were typed ahead of leaving were typed at the page, so they are dropped up to the prefix.
        """
        try:
            asked = await self._application.run_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:
            return b""
        rest = key_bytes(get_typeahead(self._source))
        if asked:
            return asked + rest
        at = rest.find(self._prefix_key.prefix) if self._prefix_key.prefix is not None else -1
        return rest[at:] if at >= 0 else b""

    def leave(self) -> None:
        """End as q does."""
        with contextlib.suppress(Exception):  # ended already
            self._application.exit(result=b"")

    # ------------------------------------------------------------------------------------------------------ the screen

    @property
    def _height(self) -> int:
        return max(1, self._screen.get_size().rows - 1)

    def _body(self) -> StyleAndTextTuples:
        self._text.measure(self._height, max(1, self._screen.get_size().columns))
        return self._text.shown()

    def _footer(self) -> str:
        if self._sought is not None:
            return f" /{printable(self._sought)}   Enter searches, Esc gives up"
        if self._note:
            return f" q goes back   {self._note}"
        more = "/ searches   : another command" if self._prefix_key.prefix is not None else "/ searches"
        if self._text.fits:
            return f" q goes back   {more}"
        rows = f"rows {self._text.top + 1}-{self._text.end} of {self._text.count}"
        return f" q goes back   {rows}   Space and b turn pages   {more}"

    # ---------------------------------------------------------------------------------------------------- the keyboard

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        searching = Condition(lambda: self._sought is not None)
        pending = Condition(lambda: self._prefix_key.pending)
        keys.add(Keys.Any)(self._drop)
        self._bind_moves(keys, ~searching & ~pending)
        self._bind_search(keys, searching & ~pending)
        for name in ("c-c", "<sigint>"):
            keys.add(name, eager=True)(lambda event: self.leave())
        keys.add("escape", eager=True, filter=~searching & ~pending)(lambda event: self.leave())
        self._prefix_key.bind_for_session(keys, lambda event, typed: event.app.exit(result=typed))
        return keys

    def _bind_moves(self, keys: KeyBindings, when: Filter) -> None:
        moves: tuple[tuple[tuple[str, ...], Callable[[], object]], ...] = (
            ((" ", "f", "pagedown"), lambda: self._text.move(self._height)),
            (("enter", "j", "down"), lambda: self._text.move(1)),
            (("b", "pageup"), lambda: self._text.move(-self._height)),
            (("k", "up"), lambda: self._text.move(-1)),
            (("home", "g"), lambda: self._text.move(-self._text.count)),
            (("end", "G"), lambda: self._text.move(self._text.count)),
            (("n",), lambda: self._next(1)),
            (("N",), lambda: self._next(-1)),
            (("/",), lambda: self._search_for("")),
        )
        for names, act in moves:
            for name in names:
                keys.add(name, filter=when)(lambda event, act=act: self._act(event, act))
        keys.add("q", filter=when)(lambda event: self._act(event, self.leave))
        keys.add(COMMAND_KEY, filter=when & Condition(lambda: self._prefix_key.prefix is not None))(
            lambda event: event.app.exit(result=(self._prefix_key.prefix or b"") + COMMAND_KEY.encode())
        )

    def _bind_search(self, keys: KeyBindings, when: Filter) -> None:
        keys.add(Keys.Any, filter=when)(lambda event: self._search_for((self._sought or "") + event.data))
        keys.add(Keys.BracketedPaste, filter=when)(
            lambda event: self._search_for((self._sought or "") + event.data.split("\n")[0])
        )
        keys.add("backspace", filter=when)(lambda event: self._search_for((self._sought or "")[:-1]))
        keys.add("enter", filter=when)(lambda event: self._search())
        keys.add("escape", eager=True, filter=when)(lambda event: self._search_for(None))

    def _act(self, event: KeyPressEvent, act: Callable[[], object]) -> None:
        if time.monotonic() - self._dropped_at < WORD_SECONDS:
            self._drop(event)
        else:
            self._note = ""
            act()

    def _drop(self, event: KeyPressEvent) -> None:
        self._dropped_at = time.monotonic()
        if event.data.isprintable():
            command = ", : types a command" if self._prefix_key.prefix is not None else ""
            self._note = f"{printable(event.data, MAX_NAMED)!r} does nothing here{command}"

    def _search_for(self, text: str | None) -> None:
        self._sought = text if text is None or text.isprintable() else self._sought

    def _search(self) -> None:
        text, self._sought = self._sought or "", None
        if not self._text.seek(text) and text:
            self._note = f"no row has {printable(text)!r}"

    def _next(self, step: int) -> None:
        if not self._text.next_match(step):
            self._note = "nothing is found, / searches"
