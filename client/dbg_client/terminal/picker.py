"""Pick a rank from a live list that fills the screen."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from dataclasses import dataclass

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output import Output

from dbg_client.core.choose import Choice, may_be_picked
from dbg_client.core.directory import Directory
from dbg_client.core.switchboard import Switchboard
from dbg_client.terminal.answering import Answering
from dbg_client.terminal.line_prompt import terminal_output
from dbg_client.terminal.options import SessionOptions
from dbg_client.terminal.pick_keys import Mode, pick_keys
from dbg_client.terminal.pick_list import PickList, empty_text, footer_text, may_break_in, title_text
from dbg_client.terminal.prompt_keys import ESCAPE_SECONDS, key_bytes, key_presses
from dbg_client.terminal.screen import catch_hangup, release_hangup
from dbg_wire.errors import DbgError, printable
from dbg_wire.records.ranks import RankInfo

REFRESH_SECONDS = 1.0
"""Seconds between two redraws without news: the list shows for how long each rank is in its state."""

_AROUND = 3
"""Rows that are not list: title, header, footer."""


async def pick_from(switchboard: Switchboard, *, color: bool) -> Choice | None:
    """Let the user pick before any session; return the choice, None if nothing was picked.

    Raises KeyboardInterrupt at Ctrl-C.
    """
    picker = Picker(switchboard.directory, switchboard.url, Answering(switchboard), color=color)
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
    directory: Directory, answering: Answering, options: SessionOptions, typed_ahead: bytes
) -> tuple[Choice | None, bytes]:
    """Let the user pick another rank from within a session, which reads the link meanwhile and keeps the signals."""
    screen = terminal_output(options.recording)
    picker = Picker(
        directory, "the broker", answering, color=options.color, prefix=options.attach.prefix, screen=screen
    )
    return await picker.run(typed_ahead)


@dataclass(frozen=True, slots=True)
class Left:
    """How the list ended: with a rank, or with keys for a session."""

    choice: Choice | None = None
    keys: bytes = b""


class Picker:
    """Show the ranks until one is picked; ``interrupted`` tells that Ctrl-C ended it.

    ``prefix`` is the byte of a session's escape key, None for no such key.
    """

    def __init__(
        self,
        directory: Directory,
        url: str,
        answering: Answering,
        *,
        color: bool,
        prefix: bytes | None = None,
        source: Input | None = None,
        screen: Output | None = None,
    ) -> None:
        self.interrupted = False
        self.mode = Mode.LIST
        self.list = PickList()
        self.prefix = prefix
        self._directory = directory
        self._url = url
        self._answering = answering
        self._color = color
        self._note = ""
        self._breaking_in: asyncio.Task[None] | None = None
        self._application: Application[Left] = Application(
            layout=self._layout(),
            key_bindings=pick_keys(self),
            full_screen=True,
            input=source or create_input(),
            output=screen or terminal_output(),
            refresh_interval=REFRESH_SECONDS,
        )
        self._application.ttimeoutlen = ESCAPE_SECONDS
        self._application.timeoutlen = ESCAPE_SECONDS

    async def run(self, typed_ahead: bytes) -> tuple[Choice | None, bytes]:
        """Return which rank was picked, or None, and the keys typed after that; ``typed_ahead`` is typed first."""
        store_typeahead(self._application.input, key_presses(typed_ahead))
        self.update()
        self._directory.on_change = self._refresh
        try:
            left = await self._application.run_async(handle_sigint=False)
            return left.choice, left.keys + key_bytes(get_typeahead(self._application.input))
        except EOFError:
            return None, b""
        finally:
            self._directory.on_change = None
            await self._end_break_in()

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
        title = title_text(count=self.list.count, total=self.list.total, chosen=self.list.chosen)
        if self.mode is Mode.FILTER or self.list.filter:
            return f" /{printable(self.list.filter)}   {title.removeprefix('Pick a rank to attach to   ')}"
        return f" {title}"

    def _footer(self) -> str:
        if self.mode is Mode.QUESTION:
            return f" {self._note} [y/N]"
        if self.mode is Mode.BUSY:
            return f" {self._note}   Esc gives up"
        if self._note:
            return f" {self._note}"
        return " " + footer_text(
            self._application.output.get_size().columns - 1,
            away=self._directory.away,
            filtering=self.mode is Mode.FILTER,
            chosen=self.list.chosen,
        )

    def _body(self) -> StyleAndTextTuples:
        shown = self.list.show(self.height, time.time(), color=self._color)
        if not shown.lines:
            text = empty_text(
                known=len(self._directory.ranks),
                filtered=self.list.filter,
                away=self._directory.away,
                url=self._url,
            )
            return [("", "\n"), *(("", f"  {line}\n") for line in text.split("\n"))]
        fragments: StyleAndTextTuples = [("bold", f"  {shown.header}\n")]
        for number, line in enumerate(shown.lines):
            style = "reverse" if number == shown.chosen else ""
            fragments.append((style, "> " if number == shown.chosen else "  "))
            fragments += [(f"{one[0]} {style}", one[1]) for one in to_formatted_text(ANSI(line))]
            fragments.append((style, "\n"))
        return fragments

    @property
    def height(self) -> int:
        """Return how many rows the list has."""
        return max(1, self._application.output.get_size().rows - _AROUND)

    def update(self) -> None:
        """Take the ranks as they are now."""
        self.list.update(self._directory.ranks)

    def _refresh(self) -> None:
        self.update()
        self._application.invalidate()

    # ------------------------------------------------------------------------------------------------ what keys lead to

    def leave(self) -> None:
        """End without a rank."""
        self._exit(Left())

    def interrupt(self) -> None:
        """End as Ctrl-C does."""
        self.interrupted = True
        self.leave()

    def leave_with(self, keys: bytes) -> None:
        """End without a rank, and hand keys to the session."""
        self._exit(Left(keys=keys))

    def move(self, lines: int) -> None:
        """Choose the line that many lines further down, or up if negative."""
        self._note = ""
        self.list.move(lines)

    def narrow(self, text: str) -> None:
        """List the ranks that have these words in their line."""
        self._note, self.list.filter = "", text
        self.update()

    def pick(self) -> None:
        """Take the chosen rank; offer to break in if it runs."""
        rank = self.list.chosen
        if rank is None:
            return
        if may_be_picked(rank):
            self._exit(Left(Choice(rank)))
        elif may_break_in(rank):
            self._note = f"{printable(rank.address)} is running. Break in and attach?"
            self.mode = Mode.QUESTION

    def answered(self, yes: bool) -> None:
        """Take the answer to the question whether to break in."""
        rank = self.list.chosen
        self.to_list()
        if yes and rank is not None:
            self._note, self.mode = f"breaking into {printable(rank.address)}", Mode.BUSY
            self._breaking_in = asyncio.ensure_future(self._break_in(rank))

    def to_list(self) -> None:
        """Let the keys be for the list again."""
        self.mode, self._note = Mode.LIST, ""

    def give_up(self) -> None:
        """Withdraw the break-in."""
        if self._breaking_in is not None:
            self._breaking_in.cancel()
        self.to_list()

    async def _break_in(self, rank: RankInfo) -> None:
        try:
            answered = await self._answering.break_in(rank)
        except DbgError as error:
            choice, problem = None, str(error)
        else:
            choice, problem = answered.choice, " ".join(answered.text.split())
        self.to_list()
        if choice is not None:
            self._exit(Left(choice))
        self._note = problem
        self._application.invalidate()

    async def _end_break_in(self) -> None:
        if self._breaking_in is not None:
            self._breaking_in.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._breaking_in

    def _exit(self, left: Left) -> None:
        with contextlib.suppress(Exception):  # ended already
            self._application.exit(result=left)
