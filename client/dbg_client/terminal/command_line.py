"""The command line of a session, opened by ``Ctrl-] :``, from the first key typed to the answer shown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from dbg_client.command_line.help import session_help, session_hint
from dbg_client.command_line.session_line import read_scope, read_session_line
from dbg_client.core.asking import Asker
from dbg_client.core.choose import Choice, choose
from dbg_client.core.remembered_groups import read_target
from dbg_client.core.switchboard import Switchboard
from dbg_client.core.wait_progress import WaitingLine, cancel_and_wait, read_in_thread
from dbg_client.shell.ask import ask_and_remember, select_ranks
from dbg_client.shell.output import is_usable, page
from dbg_client.shell.streams import terminal_size, write_result
from dbg_client.terminal.prompt import ESCAPE_SECONDS, key_bytes, key_presses, terminal_output
from dbg_client.terminal.recording import Recording
from dbg_client.verbs.verb import RanksVerb, Style, Verb
from dbg_client.views.naming import name_few
from dbg_command.targets import Target
from dbg_wire.errors import DbgError, printable
from dbg_wire.records.ranks import RankInfo

T = TypeVar("T")

MAX_SHOWN = 40
"""Maximum characters of a command that the row shows during the wait for its answer.

The rest of the row has room for the advice "(asking; Esc cancels)".
"""

_LESS = "-+F -c -Psq goes back$"
"""Options of less: don't exit after a short text, draw from the top of the screen, and show the key that leaves."""

_HISTORY = InMemoryHistory()
"""Commands typed so far in this process, because one user has several sessions."""

_ANY_KEY = (Keys.Any, "enter")


class CommandRow:
    """Prompt in the cursor's row, which it clears at the end; Esc and Ctrl-C leave the prompt.

    ``typed_ahead`` are keys for this row that were typed before it opened.
    """

    def __init__(self, typed_ahead: bytes = b"", recording: Recording | None = None) -> None:
        self._input = create_input()
        self._output = terminal_output(recording)
        store_typeahead(self._input, key_presses(typed_ahead))

    def unused(self) -> bytes:
        """Return the keys that were typed and not used."""
        return key_bytes(get_typeahead(self._input))

    async def read(self) -> str:
        """Return the command that the user types, or an empty text if the user leaves."""
        row = self._row(":", KeyBindings(), placeholder=[("fg:ansibrightblack", session_hint())])
        # A paste may have several lines, but a command has one.
        return " ".join((await self._run(row)).split("\n")).strip()

    async def wait(self, text: str, work: Awaitable[T]) -> T | None:
        """Return the result of ``work``, or None if the user leaves earlier, which cancels the work."""
        task: asyncio.Future[T] = asyncio.ensure_future(work)
        row = self._row(f":{text}   (asking; Esc cancels)", _on_any_key(lambda _: None))

        def end(_: object) -> None:
            if row.app.is_running and not row.app.is_done:
                row.app.exit(result="")

        task.add_done_callback(end)
        try:
            await self._run(row)
        finally:
            await cancel_and_wait(task)
        return None if task.cancelled() else task.result()

    async def key(self, text: str) -> str:
        """Show a text, and return the key that the user types; empty if the user leaves."""
        return await self._run(self._row(text, _on_any_key(lambda event: event.app.exit(result=event.data))))

    async def confirms(self, question: str) -> bool:
        """Ask the user, and return True for yes; any other key is no."""
        return await self.key(f"{question} [y/N]") in ("y", "Y")

    def _row(
        self, message: AnyFormattedText, keys: KeyBindings, placeholder: AnyFormattedText = None
    ) -> PromptSession[str]:
        for key in ("escape", "c-c", "<sigint>"):
            keys.add(key, eager=True)(_leave)
        row: PromptSession[str] = PromptSession(
            message,
            placeholder=placeholder,
            key_bindings=keys,
            history=_HISTORY,
            input=self._input,
            output=self._output,
        )
        row.app.erase_when_done = True
        row.app.ttimeoutlen = row.app.timeoutlen = ESCAPE_SECONDS
        return row

    async def _run(self, row: PromptSession[str]) -> str:
        try:
            return await row.prompt_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:
            return ""


def _on_any_key(act: Callable[[KeyPressEvent], None]) -> KeyBindings:
    keys = KeyBindings()
    for key in _ANY_KEY:
        keys.add(key)(act)
    return keys


def _leave(event: KeyPressEvent) -> None:
    event.app.exit(result="")


async def show_page(pager: str, text: str, *, is_drawn: bool) -> None:
    """Show a text until the user leaves it: in the user's pager, or, without a pager, at the cursor.

    The caller has restored the shell's settings of the terminal. ``is_drawn`` is True if the session already uses the
    alternate screen.
    """
    if is_usable(pager, os.environ) and await page(text, pager, f"{_LESS} {'-X' if is_drawn else '-+X'}"):
        return
    write_result(text)
    await CommandRow().key("Any key goes back")


async def run_command(answering: Answering, rank: RankInfo, row: CommandRow, *, color: bool) -> Answered | None:
    """Read one command for a session at ``rank`` and return its answer, or None if the user leaves."""
    text = await row.read()
    if not text:
        return None
    try:
        verb = read_session_line(text, os.environ)
        if verb is None:
            return Answered(session_help())
        shown = printable(text, MAX_SHOWN)
        try:
            return await row.wait(shown, answering.answer(verb, rank, color=color))
        except NeedsYes as needed:
            if not await row.confirms(needed.question):
                return Answered("Nothing was done.\n")
        return await row.wait(shown, answering.answer(verb.replace(yes=True), rank, color=color))
    except DbgError as error:
        return Answered(f"{error}\n")


@dataclass(frozen=True, slots=True)
class Answered:
    """Text to show for a command, or the rank to attach to instead."""

    text: str = ""
    choice: Choice | None = None


class NeedsYes(Exception):
    """Raised for a command that the user must confirm; never shown as an error."""

    def __init__(self, question: str) -> None:
        super().__init__(question)
        self.question = question


def _show_nothing(_line: str | None) -> None:
    """Do not show the waiting line, because the row already says that an answer is awaited."""


class Answering:
    """Runner of one session's verbs over the session's connection, one verb at a time."""

    def __init__(self, switchboard: Switchboard) -> None:
        self._directory = switchboard.directory
        self._asker = Asker(switchboard, None, terminal_size, WaitingLine(_show_nothing))

    async def answer(self, verb: Verb, rank: RankInfo, *, color: bool) -> Answered:
        """Run a verb from a session at ``rank``. Raises DbgError and NeedsYes."""
        self._asker.seconds = verb.broker.timeout
        target = await self._target(verb, rank)
        if not isinstance(verb, RanksVerb):
            return Answered(choice=choose(target, self._directory.ranks) if target is not None else Choice(rank))
        ranks, note = self._select(verb, target, rank)
        asks, those = verb.consent(ranks)
        if those and not verb.yes:
            raise NeedsYes(f"{asks} {name_few(those, self._directory.ranks)}?")
        answer, problem = await ask_and_remember(verb, self._asker, ranks, target, _show_nothing)
        lines = [printable(note or ""), answer.text(Style(color=color)), answer.hint, problem]
        return Answered("".join(f"{line.rstrip()}\n" for line in lines if line))

    def _select(self, verb: RanksVerb, target: Target | None, rank: RankInfo) -> tuple[Sequence[RankInfo], str | None]:
        known = self._directory.ranks
        if target is None:
            return [rank] if verb.is_about_this_rank else known, None
        return select_ranks(verb, target, known)

    async def _target(self, verb: Verb, rank: RankInfo) -> Target | None:
        """Return the target of the verb; None for the session's own rank, and for a list of all ranks."""
        text: str | None = getattr(verb, "target", None)
        if text is None and isinstance(verb, RanksVerb) and not verb.is_about_this_rank:
            text = verb.usual
        if text is None:
            return None
        target = await read_in_thread(partial(read_target, text, os.environ), verb.broker.timeout)
        return read_scope(target, rank.job)
