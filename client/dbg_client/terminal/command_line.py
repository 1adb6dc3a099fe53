"""The command line of a session: what ``Ctrl-] :`` opens, from the first key typed to the answer seen."""

from __future__ import annotations

import asyncio
import os

from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead

from dbg_client.actions.in_session import Answered, Answering, NeedsYes
from dbg_client.core.choose import Choice
from dbg_client.core.config_file import read_config
from dbg_client.terminal.command_row import CommandRow, terminal_output
from dbg_client.terminal.pager import Pager
from dbg_client.terminal.prompt_keys import key_bytes, key_presses
from dbg_client.words.help import session_help
from dbg_client.words.session_line import parse_command
from dbg_client.words.settings import Attach, RankSettings
from dbg_wire.errors import DbgError, printable
from dbg_wire.records.ranks import RankInfo

MAX_SHOWN = 40
"""Characters of a command that stand in the row while its answer is awaited, beside how to give up."""

_HISTORY: list[str] = []
"""Commands typed so far, for the whole process: sessions come and go while the user stays."""


async def ask(question: str, typed_ahead: bytes) -> tuple[bool, bytes]:
    """Ask in the row where the cursor stands; return whether the answer is yes, and the keys typed behind it."""
    source = create_input()
    store_typeahead(source, key_presses(typed_ahead))
    agreed = await CommandRow(source, terminal_output(), _HISTORY).agrees(question)
    return agreed, key_bytes(get_typeahead(source))


async def show_page(text: str, prefix: bytes | None, typed_ahead: bytes) -> bytes:
    """Show a text full screen until the user leaves it; return the keys that are for the session."""
    source = create_input()
    store_typeahead(source, key_presses(typed_ahead))
    return await Pager(text, source, terminal_output(), prefix).run()


class SessionCommandLine:
    """Take one command and show its answer; the terminal is lent for it, the cursor where the row is to be."""

    def __init__(self, answering: Answering, rank: RankInfo, *, color: bool, prefix: bytes | None) -> None:
        self._answering = answering
        self._rank = rank
        self._color = color
        self._prefix = prefix
        self._source = create_input()
        self._screen = terminal_output()
        self._row = CommandRow(self._source, self._screen, _HISTORY)
        self._answering.show_waiting = self._row.note

    async def run(self, typed_ahead: bytes) -> tuple[Choice | None, bytes]:
        """Return the rank to go to, if that was the command, and the keys that are for the session."""
        store_typeahead(self._source, key_presses(typed_ahead))
        text = await self._row.read()
        answered = await self._act(text) if text is not None else None
        if answered is not None and answered.choice is None:
            return None, await Pager(answered.text, self._source, self._screen, self._prefix).run()
        return None if answered is None else answered.choice, key_bytes(get_typeahead(self._source))

    async def _act(self, text: str) -> Answered | None:
        try:
            return await self._answer(text)
        except DbgError as error:
            return Answered(f"{error}\n")

    async def _answer(self, text: str) -> Answered | None:
        settings = parse_command(text, os.environ, await asyncio.to_thread(read_config, os.environ))
        if settings is None:
            return Answered(session_help())
        if isinstance(settings, RankSettings):
            settings = settings.with_color(self._color)
        try:
            return await self._wait(text, settings)
        except NeedsYes as needed:
            settings = needed.agreed
            if not await self._row.agrees(needed.question):
                return Answered("Nothing was done.\n")
        return await self._wait(text, settings)

    async def _wait(self, text: str, settings: Attach | RankSettings) -> Answered | None:
        return await self._row.wait(printable(text, MAX_SHOWN), self._answering.answer(settings, self._rank))
