"""Pick a rank from a live list that fills the screen: typing narrows it, Enter attaches."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import textwrap
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output import Output

from dbg_client.core.choose import Choice, is_ready, may_be_picked
from dbg_client.core.directory import Directory
from dbg_client.core.switchboard import Switchboard
from dbg_client.terminal.prompt import ESCAPE_SECONDS, key_bytes, key_presses, terminal_output
from dbg_client.terminal.screen import catch_hangup, release_hangup
from dbg_client.views.list import align, nobody_yet
from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankInfo, RankState, rank_order

if TYPE_CHECKING:
    from dbg_client.terminal.session import SessionOptions

REFRESH_SECONDS = 1.0
"""Seconds between two redraws without changes: the list shows for how long each rank is in its state."""

_AROUND = 3
"""Rows outside the list: title, header, footer."""


async def pick_from(switchboard: Switchboard) -> Choice | None:
    """Let the user pick a rank before any session; return the choice, or None if nothing was picked.

    Raises KeyboardInterrupt on Ctrl-C.
    """
    picker = Picker(switchboard.directory, switchboard.url)
    loop = asyncio.get_running_loop()
    choice: Choice | None = None
    loop.add_signal_handler(signal.SIGTERM, picker.leave)
    catch_hangup(loop, picker.leave)
    try:
        choice, _ = await picker.run(b"")
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        release_hangup(ignores=choice is None)
    if picker.interrupted:
        raise KeyboardInterrupt
    return choice


async def pick_in_session(
    directory: Directory, options: SessionOptions, typed_ahead: bytes
) -> tuple[Choice | None, bytes]:
    """Let the user pick another rank within a session; the session itself reads the link and handles signals."""
    screen = terminal_output(options.recording)
    picker = Picker(directory, "the broker", screen=screen)
    return await picker.run(typed_ahead)


class PickList:
    """List of ranks with a filter and a chosen rank; both are kept when the ranks change. Pure.

    Stopped ranks are first. The choice follows its rank when the rank moves, and moves to the first line when the rank
    leaves the list.
    """

    def __init__(self) -> None:
        self.filter = ""
        self.total = 0
        self._ranks: tuple[RankInfo, ...] = ()
        self._key: str | None = None
        self._top = 0

    @property
    def chosen(self) -> RankInfo | None:
        """The chosen rank, or None in an empty list."""
        return self._ranks[self._index()] if self._ranks else None

    @property
    def title(self) -> str:
        """Line above the list: the filter, and the number of ranks shown."""
        count = len(self._ranks)
        shown = f"{count} of {self.total}" if self.total != 1 else f"{count} of 1 rank"
        what = f"/{printable(self.filter)}" if self.filter else "Pick a rank to attach to"
        return f"{what}   {shown}"

    def update(self, ranks: Sequence[RankInfo]) -> None:
        """Update the list with the present ranks; exited ranks are left out."""
        words = self.filter.lower().split()
        there = [rank for rank in ranks if rank.state is not RankState.EXITED]
        self.total = len(there)
        limit_rows = [rank for rank in there if _fits(rank, words)]
        self._ranks = tuple(sorted(limit_rows, key=lambda rank: (not is_ready(rank), rank_order(rank))))
        if self._ranks:
            self._key = self._ranks[self._index()].key

    def move(self, lines: int) -> None:
        """Move the choice down by ``lines``, or up if negative, at most to the end of the list."""
        if self._ranks:
            self._key = self._ranks[min(max(self._index() + lines, 0), len(self._ranks) - 1)].key

    def show(self, height: int, now: float) -> tuple[str, list[str], int]:
        """Return the header, at most ``height`` visible lines, and the index of the chosen line."""
        if not self._ranks or height < 1:
            return "", [], 0
        index = self._index()
        self._top = min(max(self._top, index - height + 1, 0), index, max(0, len(self._ranks) - height))
        header, lines = align(self._ranks[self._top : self._top + height], now)
        return header, lines, index - self._top

    def _index(self) -> int:
        return next((index for index, rank in enumerate(self._ranks) if rank.key == self._key), 0)


class Picker:
    """Full-screen list of ranks to pick from; ``interrupted`` is True if Ctrl-C ended it."""

    def __init__(
        self,
        directory: Directory,
        url: str,
        *,
        source: Input | None = None,
        screen: Output | None = None,
    ) -> None:
        self.interrupted = False
        self._list = PickList()
        self._directory = directory
        self._url = url
        self._application: Application[Choice | None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            full_screen=True,
            input=source or create_input(),
            output=screen or terminal_output(),
            refresh_interval=REFRESH_SECONDS,
        )
        self._application.ttimeoutlen = self._application.timeoutlen = ESCAPE_SECONDS

    async def run(self, typed_ahead: bytes) -> tuple[Choice | None, bytes]:
        """Return the picked rank or None, and the keys typed afterwards; ``typed_ahead`` are the first keys."""
        store_typeahead(self._application.input, key_presses(typed_ahead))
        self._update()
        self._directory.on_change = self._update
        try:
            choice = await self._application.run_async(handle_sigint=False)
            return choice, key_bytes(get_typeahead(self._application.input))
        except EOFError:
            return None, b""
        finally:
            self._directory.on_change = None

    def leave(self) -> None:
        """End without a rank."""
        self._exit(None)

    def _layout(self) -> Layout:
        def row(text: FormattedTextControl) -> Window:
            return Window(text, height=1, style="reverse")

        body = FormattedTextControl(self._body, focusable=True, show_cursor=False)
        title = FormattedTextControl(lambda: f" {self._list.title}")
        footer = FormattedTextControl(lambda: f" {footer_text(self._directory.away, self._list.chosen)}")
        return Layout(HSplit([row(title), Window(body, always_hide_cursor=True), row(footer)]))

    def _body(self) -> StyleAndTextTuples:
        header, rows, chosen = self._list.show(self._height(), time.time())
        if not rows:
            text = empty_text(self._list, self._directory.away, self._url, has_ranks=bool(self._directory.ranks))
            lines = textwrap.wrap(text, max(1, self._application.output.get_size().columns - 4))
            return [("", "\n"), *(("", f"  {line}\n") for line in lines)]
        fragments: StyleAndTextTuples = [("bold", f"  {header}\n")]
        for number, line in enumerate(rows):
            style = "reverse" if number == chosen else ""
            fragments.append((style, f"{'> ' if number == chosen else '  '}{line}\n"))
        return fragments

    def _height(self) -> int:
        return max(1, self._application.output.get_size().rows - _AROUND)

    def _update(self) -> None:
        self._list.update(self._directory.ranks)
        self._application.invalidate()

    # -------------------------------------------------------------------------------------------------------- keys

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("enter")(lambda event: self._pick())
        keys.add("escape")(lambda event: self._narrow("") if self._list.filter else self.leave())
        keys.add("backspace")(lambda event: self._narrow(self._list.filter[:-1]))
        keys.add("c-c", eager=True)(lambda event: self._interrupt())
        keys.add("down")(lambda event: self._list.move(1))
        keys.add("up")(lambda event: self._list.move(-1))
        keys.add("pagedown")(lambda event: self._list.move(self._height()))
        keys.add("pageup")(lambda event: self._list.move(-self._height()))

        @keys.add(Keys.Any)
        def _type(event: KeyPressEvent) -> None:
            if event.data.isprintable():
                self._narrow(self._list.filter + event.data)

        return keys

    def _narrow(self, text: str) -> None:
        """List only the ranks whose text contains these words."""
        self._list.filter = text
        self._update()

    def _pick(self) -> None:
        rank = self._list.chosen
        if rank is not None and may_be_picked(rank):
            self._exit(Choice(rank))

    def _interrupt(self) -> None:
        self.interrupted = True
        self.leave()

    def _exit(self, choice: Choice | None) -> None:
        with contextlib.suppress(Exception):  # already ended
            self._application.exit(result=choice)


def empty_text(shown: PickList, away: str | None, url: str, *, has_ranks: bool) -> str:
    """Return the text of an empty list: the reason, and what to do."""
    if shown.filter:
        return f"No rank matches '{printable(shown.filter)}'. Esc shows all."
    if away is not None:
        return f"The broker at {printable(url)} is gone ({printable(away)}); reconnecting."
    return "All ranks have exited; `dbg-attach list --all` lists them." if has_ranks else nobody_yet(url)


def footer_text(away: str | None, chosen: RankInfo | None) -> str:
    """Return the line below the list: the available keys, or why the chosen rank can't be attached to."""
    if away is not None:
        return f"broker gone, reconnecting ({printable(away)})   Esc leaves"
    if chosen is None or may_be_picked(chosen):
        return "Enter attaches   type to narrow   Esc leaves"
    address = printable(chosen.address)
    if chosen.state is RankState.RUNNING and not chosen.is_classic:
        return f"{address} is running; `dbg-attach interrupt {address}` breaks in"
    return f"{address} is {chosen.state.value}; you can attach when it stops"


def _fits(rank: RankInfo, words: Sequence[str]) -> bool:
    where = f"{rank.where.file}:{rank.where.line} {rank.where.function}" if rank.where else ""
    text = f"{rank.full_address} {rank.state.value} {rank.reason or ''} {where} {rank.driver or ''}".lower()
    return all(word in text for word in words)
