"""Pick a rank from a live list that fills the screen, or ask some of them from there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import Output

from dbg_client.actions.in_session import Answered, Answering
from dbg_client.core.choose import Choice, may_be_picked
from dbg_client.core.directory import Directory
from dbg_client.core.switchboard import Switchboard
from dbg_client.terminal.command_row import terminal_output
from dbg_client.terminal.options import SessionOptions
from dbg_client.terminal.pager import Pager
from dbg_client.terminal.pick_keys import Mode, pick_keys
from dbg_client.terminal.prompt_keys import ESCAPE_SECONDS, key_bytes, key_presses
from dbg_client.terminal.screen import catch_hangup, release_hangup
from dbg_client.views.naming import name_few
from dbg_client.views.pick_list import HELP, PickList, empty_text, footer_text, may_break_in, title_text
from dbg_client.words.command_line import parse
from dbg_client.words.settings import RankSettings
from dbg_client.words.settle import settle
from dbg_wire.errors import DbgError, printable
from dbg_wire.records.ranks import RankInfo

PROMPTS: Mapping[str, str] = {"e": "expression", "c": "pdb command"}
"""The letters that need a text, and how it is asked for."""

_WORDS: Mapping[str, Callable[[str], Sequence[str]]] = {
    "w": lambda text: ("where",),
    "e": lambda text: ("eval", "--", text),
    "c": lambda text: ("command", "all", "--", text),
    "i": lambda text: ("interrupt",),
}

REFRESH_SECONDS = 1.0
"""Seconds between two redraws without news: the list shows for how long each rank is in its state."""

_AROUND = 3
"""Rows that are not list: title, header, footer."""


class PickActions:
    """Ask ranks for the picker, one question at a time."""

    def __init__(self, answering: Answering, *, color: bool) -> None:
        self.color = color
        self._answering = answering

    async def answer(self, letter: str, text: str, ranks: Sequence[RankInfo]) -> str:
        """Return the page that answers a letter; what is wrong with the question is a page, too."""
        try:
            settings = _settings(_WORDS[letter](text))
            return await self._answering.answer_for(settings.with_color(self.color), ranks)
        except DbgError as error:
            return f"{error}\n"

    async def stop(self, rank: RankInfo) -> Answered:
        """Break into a rank; return it once it has stopped, or as a page why it does not."""
        try:
            return await self._answering.break_in(rank, _settings(_WORDS["i"]("")).broker.timeout)
        except DbgError as error:
            return Answered(f"{error}\n")


def _settings(words: Sequence[str]) -> RankSettings:
    settings = settle(parse(words), os.environ, stdout_is_tty=True)
    if not isinstance(settings, RankSettings):
        raise TypeError(f"{settings.name} asks no ranks")
    return settings


async def pick_from(switchboard: Switchboard, *, color: bool) -> Choice | None:
    """Let the user pick before any session; return the choice, None if nothing was picked.

    Raises KeyboardInterrupt at Ctrl-C.
    """
    directory = switchboard.directory
    actions = PickActions(Answering(switchboard), color=color)
    picker = Picker(directory, switchboard.url, actions)
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
    actions = PickActions(answering, color=options.color)
    picker = Picker(directory, "the broker", actions, prefix=options.attach.prefix)
    return await picker.run(typed_ahead)


@dataclass(frozen=True, slots=True)
class Left:
    """How one showing of the list ended: with a rank, a page to show before the next showing, or keys for a session."""

    choice: Choice | None = None
    page: str = ""
    keys: bytes = b""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What stands in the last row: a question, with what follows a yes, or what is waited for."""

    text: str
    agreed: Callable[[], None]


class Picker:
    """Show the ranks until one is picked; ``interrupted`` tells that Ctrl-C ended it."""

    def __init__(
        self,
        directory: Directory,
        url: str,
        actions: PickActions,
        *,
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
        self._actions = actions
        self._letter = ""
        self._asked = _Asked("", self.to_list)
        self._work: asyncio.Task[None] | None = None
        self._pager: Pager | None = None
        self._left = False
        self._buffer = Buffer(multiline=False)
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
            while True:
                left = await self._application.run_async(handle_sigint=False)
                if not left.page:
                    return left.choice, left.keys + key_bytes(get_typeahead(self._application.input))
                keys = await self._show(left.page)
                if keys or self._left:
                    return None, keys
                self.update()
        except EOFError:
            return None, b""
        finally:
            self._directory.on_change = None
            await self._give_up()

    async def _show(self, page: str) -> bytes:
        self._pager = Pager(page, self._application.input, self._application.output, self.prefix)
        try:
            return await self._pager.run()
        finally:
            self._pager = None

    # ------------------------------------------------------------------------------------------------------ the screen

    def _layout(self) -> Layout:
        body = FormattedTextControl(self._body, focusable=True, show_cursor=False)
        prompting = Condition(lambda: self.mode is Mode.PROMPT)
        prompt = BufferControl(self._buffer, input_processors=[BeforeInput(self._prompt)])
        foot = Window(FormattedTextControl(self._footer), height=1, style="reverse")
        self._body_window = Window(body, always_hide_cursor=True)
        return Layout(
            HSplit(
                [
                    Window(FormattedTextControl(self._title), height=1, style="reverse"),
                    self._body_window,
                    ConditionalContainer(Window(prompt, height=1), prompting),
                    ConditionalContainer(foot, ~prompting),
                ]
            ),
            focused_element=self._body_window,
        )

    def _prompt(self) -> str:
        count = len(self.list.meant)
        return f" {PROMPTS[self._letter]} for {count} rank{'s' if count != 1 else ''}: "

    def _title(self) -> str:
        title = title_text(
            count=self.list.count,
            total=self.list.total,
            selected=self.list.selected_count,
            chosen=self.list.chosen,
        )
        if self.mode is Mode.FILTER or self.list.filter:
            return f" /{printable(self.list.filter)}   {title.removeprefix('Pick a rank to attach to   ')}"
        return f" {title}"

    def _footer(self) -> str:
        if self.mode is Mode.QUESTION:
            return f" {self._asked.text} [y/N]"
        if self.mode is Mode.BUSY:
            return f" {self._asked.text}   Esc gives up"
        return " " + footer_text(
            self._application.output.get_size().columns - 1,
            away=self._directory.away,
            filtering=self.mode is Mode.FILTER,
            chosen=self.list.chosen,
            folded=self.list.is_folded,
        )

    def _body(self) -> StyleAndTextTuples:
        shown = self.list.show(self.height, time.time(), color=self._actions.color)
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
            signs = f"{'>' if number == shown.chosen else ' '}{'*' if number in shown.selected else ' '}"
            fragments.append((style, signs))
            fragments += [(f"{one[0]} {style}", one[1]) for one in to_formatted_text(ANSI(line))]
            fragments.append((style, "\n"))
        return fragments

    @property
    def height(self) -> int:
        """Return how many rows the list has."""
        return max(1, self._application.output.get_size().rows - _AROUND)

    def update(self) -> None:
        """Take the ranks as they are now."""
        self.list.update(self._directory.ranks, self.height)

    def _refresh(self) -> None:
        self.update()
        self._application.invalidate()

    # ------------------------------------------------------------------------------------------------ what keys lead to

    def leave(self) -> None:
        """End without a rank."""
        self._left = True
        if self._pager is not None:
            self._pager.leave()
        self._exit(Left())

    def interrupt(self) -> None:
        """End as Ctrl-C does."""
        self.interrupted = True
        self.leave()

    def leave_with(self, keys: bytes) -> None:
        """End without a rank, and hand keys to the session."""
        self._exit(Left(keys=keys))

    def show_help(self) -> None:
        """Show which keys there are."""
        self._exit(Left(page=HELP))

    def pick(self) -> None:
        """Take the chosen rank; offer to break in if it runs, and unfold it if it is a group."""
        rank = self.list.enter()
        if rank is None:
            return
        if may_be_picked(rank):
            self._exit(Left(Choice(rank)))
        elif may_break_in(rank):
            self._ask(
                f"{printable(rank.address)} is running. Break in and attach?",
                lambda: self._begin(f"breaking into {printable(rank.address)}", self._stop(rank)),
            )

    def act(self, letter: str) -> None:
        """Do what a letter means for the ranks that are selected, or the chosen ones."""
        ranks = self.list.meant
        if not ranks:
            return
        if letter in PROMPTS:
            self._letter, self.mode = letter, Mode.PROMPT
            self._buffer.reset()
            self._application.layout.focus(self._buffer)
        elif letter == "i" and len(ranks) > 1:
            self._ask(f"Break into {name_few(ranks, self._directory.ranks)}?", lambda: self._put(letter, "", ranks))
        else:
            self._put(letter, "", ranks)

    def entered(self) -> None:
        """Ask what was typed at the prompt."""
        text = self._buffer.text.strip()
        self.to_list()
        if text and self.list.meant:
            self._put(self._letter, text, self.list.meant)

    def answered(self, yes: bool) -> None:
        """Take the answer to a question."""
        agreed = self._asked.agreed
        self.to_list()
        if yes:
            agreed()

    def to_list(self) -> None:
        """Let the keys be for the list again."""
        self.mode = Mode.LIST
        self._application.layout.focus(self._body_window)

    def give_up(self) -> None:
        """Give up what is being asked."""
        if self._work is not None:
            self._work.cancel()
        self.to_list()

    def _ask(self, question: str, agreed: Callable[[], None]) -> None:
        self._asked, self.mode = _Asked(question, agreed), Mode.QUESTION

    def _put(self, letter: str, text: str, ranks: Sequence[RankInfo]) -> None:
        names = name_few(ranks, self._directory.ranks)
        self._begin(f"asking {names}", self._page(self._actions.answer(letter, text, ranks)))

    def _begin(self, doing: str, work: Awaitable[None]) -> None:
        self._asked, self.mode = _Asked(doing, self.to_list), Mode.BUSY
        self._work = asyncio.ensure_future(self._finish(work))

    async def _finish(self, work: Awaitable[None]) -> None:
        try:
            await work
        finally:
            self._work = None

    async def _page(self, page: Awaitable[str]) -> None:
        text = await page
        self.to_list()
        self._exit(Left(page=text or "\n"))

    async def _stop(self, rank: RankInfo) -> None:
        stopped = await self._actions.stop(rank)
        self.to_list()
        self._exit(Left(stopped.choice, page=stopped.text))

    async def _give_up(self) -> None:
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError, DbgError):
                await self._work

    def _exit(self, left: Left) -> None:
        with contextlib.suppress(Exception):  # ended already
            self._application.exit(result=left)
