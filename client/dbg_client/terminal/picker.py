"""Pick a rank from a live list that fills the screen."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output import Output, create_output

from dbg_wire.codec import Output as RankOutput
from dbg_wire.errors import printable
from dbg_wire.ranks import RankInfo

from ..core.choose import may_be_picked
from ..core.directory import Directory
from ..core.link import BrokerLink, Down, Up
from ..views.pick_list import PickList, empty_text, footer_text
from .key_presses import ESCAPE_SECONDS, key_bytes, key_presses

REFRESH_SECONDS = 1.0
"""Seconds between two redraws without news: the list shows for how long each rank is in its state."""

_AROUND = 3
"""Rows that are not list: title, header, footer."""


async def pick_from(link: BrokerLink, directory: Directory) -> tuple[RankInfo | None, bytes]:
    """Let the user pick before any session; return the rank, None if nothing was picked, and the keys not used.

    Reads the link meanwhile. Raises KeyboardInterrupt at Ctrl-C.
    """
    picker = Picker(directory, link.url)
    pump = asyncio.create_task(_pump(link, directory))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, picker.leave)
    try:
        rank, unused = await picker.run(b"")
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
    if picker.interrupted:
        raise KeyboardInterrupt
    return rank, unused


async def pick_in_session(directory: Directory, typed_ahead: bytes) -> tuple[RankInfo | None, bytes]:
    """Let the user pick another rank from within a session, which reads the link meanwhile and keeps the signals."""
    return await Picker(directory, "the broker").run(typed_ahead)


async def _pump(link: BrokerLink, directory: Directory) -> None:
    while True:
        event = await link.next()
        if isinstance(event, Up):
            directory.begin()
        elif isinstance(event, Down):
            directory.cut_off(event.reason)
        elif not isinstance(event, RankOutput):
            directory.take(event)


class Picker:
    """Show the ranks until one is picked; ``interrupted`` tells that Ctrl-C ended it."""

    def __init__(
        self, directory: Directory, url: str, *, source: Input | None = None, screen: Output | None = None
    ) -> None:
        self.interrupted = False
        self._directory = directory
        self._url = url
        self._list = PickList()
        self._filtering = False
        self._source = source or create_input()
        self._application: Application[RankInfo | None] = Application(
            layout=self._layout(),
            key_bindings=self._bindings(),
            full_screen=True,
            input=self._source,
            output=screen or create_output(),
            refresh_interval=REFRESH_SECONDS,
        )
        self._application.ttimeoutlen = ESCAPE_SECONDS
        self._application.timeoutlen = ESCAPE_SECONDS

    async def run(self, typed_ahead: bytes) -> tuple[RankInfo | None, bytes]:
        """Return the rank picked, or None, and the keys typed after that; ``typed_ahead`` is typed first."""
        store_typeahead(self._source, key_presses(typed_ahead))
        self._list.update(self._directory.ranks)
        self._directory.on_change = self._refresh
        try:
            picked = await self._application.run_async(handle_sigint=False)
        except EOFError:
            picked = None
        finally:
            self._directory.on_change = None
        return picked, key_bytes(get_typeahead(self._source))

    def leave(self) -> None:
        """End without a rank."""
        with contextlib.suppress(Exception):  # ended already
            self._application.exit(result=None)

    def _refresh(self) -> None:
        self._list.update(self._directory.ranks)
        self._application.invalidate()

    # ------------------------------------------------------------------------------------------------------ the screen

    def _layout(self) -> Layout:
        body = FormattedTextControl(self._body, focusable=True, show_cursor=False)
        return Layout(
            HSplit(
                [
                    Window(FormattedTextControl(self._title), height=1, style="reverse"),
                    Window(body, always_hide_cursor=True),
                    Window(FormattedTextControl(self._footer), height=1, style="reverse"),
                ]
            )
        )

    def _title(self) -> str:
        if self._filtering or self._list.filter:
            return f" /{printable(self._list.filter)}"
        return " Pick a rank to attach to"

    def _footer(self) -> str:
        footer = footer_text(away=self._directory.away, filtering=self._filtering, chosen=self._list.chosen)
        return f" {footer}"

    def _body(self) -> StyleAndTextTuples:
        shown = self._list.show(self._height(), time.time())
        if not shown.lines:
            text = empty_text(
                known=len(self._directory.ranks),
                filtered=self._list.filter,
                away=self._directory.away,
                url=self._url,
            )
            return [("", "\n"), *(("", f"  {line}\n") for line in text.split("\n"))]
        fragments: StyleAndTextTuples = [("bold", f"  {shown.header}\n")]
        for number, line in enumerate(shown.lines):
            chosen = number == shown.chosen
            fragments.append(("reverse" if chosen else "", f"{'>' if chosen else ' '} {line}\n"))
        return fragments

    def _height(self) -> int:
        return max(1, self._application.output.get_size().rows - _AROUND)

    # ---------------------------------------------------------------------------------------------------- the keyboard

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        filtering = Condition(lambda: self._filtering)
        self._bind_moves(bindings, filtering)
        bindings.add("enter")(lambda event: self._pick())
        bindings.add("c-c")(self._interrupt)
        bindings.add("escape", filter=filtering)(lambda event: self._stop_filtering())
        bindings.add("backspace", filter=filtering)(lambda event: self._narrow(self._list.filter[:-1]))
        bindings.add(Keys.Any, filter=filtering)(self._type)
        bindings.add("/", filter=~filtering)(lambda event: self._start_filtering())
        bindings.add("q", filter=~filtering)(lambda event: self.leave())
        bindings.add("escape", filter=~filtering)(lambda event: self._escape())
        return bindings

    def _bind_moves(self, bindings: KeyBindings, filtering: Condition) -> None:
        moves: tuple[tuple[str, Callable[[], int]], ...] = (
            ("down", lambda: 1),
            ("up", lambda: -1),
            ("pagedown", self._height),
            ("pageup", lambda: -self._height()),
            ("home", lambda: -len(self._directory.ranks)),
            ("end", lambda: len(self._directory.ranks)),
        )
        for key, lines in moves:
            bindings.add(key)(lambda event, lines=lines: self._list.move(lines()))
        bindings.add("j", filter=~filtering)(lambda event: self._list.move(1))
        bindings.add("k", filter=~filtering)(lambda event: self._list.move(-1))

    def _pick(self) -> None:
        rank = self._list.chosen
        if rank is not None and may_be_picked(rank):
            self._application.exit(result=rank)

    def _interrupt(self, event: KeyPressEvent) -> None:
        self.interrupted = True
        self.leave()

    def _type(self, event: KeyPressEvent) -> None:
        if event.data.isprintable():
            self._narrow(self._list.filter + event.data)

    def _start_filtering(self) -> None:
        self._filtering = True

    def _stop_filtering(self) -> None:
        self._filtering = False
        self._narrow("")

    def _escape(self) -> None:
        if self._list.filter:
            self._narrow("")
        else:
            self.leave()

    def _narrow(self, text: str) -> None:
        self._list.filter = text
        self._list.update(self._directory.ranks)
