"""The command line of a session: what ``Ctrl-] :`` opens, from the first key typed to the answer seen."""

from __future__ import annotations

import contextlib
import os
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator

from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead

from dbg_client.command_line.help import session_help
from dbg_client.command_line.session_line import read_session_line
from dbg_client.core.choose import Choice
from dbg_client.shell.output import is_usable, page
from dbg_client.shell.streams import write_result
from dbg_client.terminal.answering import Answered, Answering, NeedsYes
from dbg_client.terminal.command_row import CommandRow
from dbg_client.terminal.line_prompt import terminal_output
from dbg_client.terminal.options import SessionOptions
from dbg_client.terminal.prompt_keys import key_bytes, key_presses
from dbg_client.terminal.recording import Recording
from dbg_client.verbs.verb import Verb
from dbg_wire.errors import DbgError, printable
from dbg_wire.records.ranks import RankInfo

MAX_SHOWN = 40
"""Characters of a command that stand in the row while its answer is awaited, beside how to give up."""

_LESS = "-+F -c -Psq goes back$"
"""Options of less: stay for a short text as well, from the top of the screen, and say how to leave."""

_HISTORY: list[str] = []
"""Commands typed so far, for the whole process: sessions come and go while the user stays."""


ShowPage = Callable[[str], Awaitable[None]]
"""Shows a text until the user leaves it."""


async def ask(question: str, typed_ahead: bytes, recording: Recording | None) -> tuple[bool, bytes]:
    """Ask in the row where the cursor stands; return whether the answer is yes, and the keys typed behind it."""
    source = create_input()
    store_typeahead(source, key_presses(typed_ahead))
    agreed = await CommandRow(source, terminal_output(recording), _HISTORY).agrees(question)
    return agreed, key_bytes(get_typeahead(source))


async def show_page(pager: str, text: str, *, is_drawn: bool) -> None:
    """Show a text until the user leaves it: in the user's pager, or where the cursor stands if there is none.

    ``is_drawn`` tells that the session has the terminal's other screen already.
    """
    with _line_mode():
        if is_usable(pager, os.environ) and await page(text, pager, f"{_LESS} {'-X' if is_drawn else '-+X'}"):
            return
        write_result(text)
    await CommandRow(create_input(), terminal_output(), _HISTORY).pause("Any key goes back")


@contextlib.contextmanager
def _line_mode() -> Iterator[None]:
    """Let another program have the terminal as a shell would give it, and take it back raw."""
    saved = termios.tcgetattr(sys.stdin)
    lines = [*saved]
    lines[0] |= termios.ICRNL | termios.IXON
    lines[1] |= termios.OPOST | termios.ONLCR
    lines[3] |= termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, lines)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)


class SessionCommandLine:
    """Take one command and show its answer; the terminal is lent for it, the cursor where the row is to be."""

    def __init__(self, answering: Answering, rank: RankInfo, options: SessionOptions, show: ShowPage) -> None:
        self._answering = answering
        self._rank = rank
        self._color = options.color
        self._show = show
        self._source = create_input()
        self._row = CommandRow(self._source, terminal_output(options.recording), _HISTORY)
        self._answering.show_waiting = self._row.note

    async def run(self, typed_ahead: bytes) -> tuple[Choice | None, bytes]:
        """Return the rank to go to, if that was the command, and the keys that are for the session."""
        store_typeahead(self._source, key_presses(typed_ahead))
        text = await self._row.read()
        answered = await self._act(text) if text is not None else None
        if answered is not None and answered.choice is None:
            await self._show(answered.text)
            return None, b""
        return None if answered is None else answered.choice, key_bytes(get_typeahead(self._source))

    async def _act(self, text: str) -> Answered | None:
        try:
            return await self._answer(text)
        except DbgError as error:
            return Answered(f"{error}\n")

    async def _answer(self, text: str) -> Answered | None:
        verb = read_session_line(text, os.environ)
        if verb is None:
            return Answered(session_help())
        try:
            return await self._wait(text, verb)
        except NeedsYes as needed:
            if not await self._row.agrees(needed.question):
                return Answered("Nothing was done.\n")
        return await self._wait(text, verb.replace(yes=True))

    async def _wait(self, text: str, verb: Verb) -> Answered | None:
        work = self._answering.answer(verb, self._rank, color=self._color)
        return await self._row.wait(printable(text, MAX_SHOWN), work)
