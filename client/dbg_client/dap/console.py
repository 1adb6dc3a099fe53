"""The debug console, a REPL: expressions in the selected frame, and a session's verbs for many ranks."""

from __future__ import annotations

import os
import re

from dbg_client.api.ranks import AsyncRanks, Memory
from dbg_client.command_line.session_line import read_session_line, session_verbs
from dbg_client.core.directory import LISTS
from dbg_client.core.link import Event
from dbg_client.dap.step_requests import Keyboard
from dbg_client.dap.window import Threads, Window
from dbg_client.verbs.verb import RanksVerb
from dbg_client.views.naming import name_few
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Logged

HELP = """\
EXPRESSION            evaluate in the selected frame of the selected rank, or run a statement there
eval RANKS EXPRESSION evaluate in many ranks, as in `eval all loss`; equal answers form one group
where, why, interrupt and other verbs work as in a terminal after Ctrl-] :
take                  take the keyboard of the selected rank
help                  show this help
Write RANKS as on the command line: 5, 0-7, all, stopped, @1, gpu013:*."""

COMMANDS = {
    "list": "`list` in the debug console",
    "wait": "this window",
    "interrupt": "`interrupt {ranks}` in the debug console",
    "release": "`release {ranks}` in the debug console",
    "attach": "`where {ranks}` in the debug console",
}
"""Replacements, in an IDE, for terminal commands that an error names."""

MAX_TEXT = 4000
"""Maximum length of a log text in the console, in characters. The broker's limit is lower, but escapes add length."""

_OPERANDS = re.compile(r"(?!(?:and|if|in|is|not|or)\b)(?:--?\w|[@!]?\w|$)")
"""Pattern of the text that may follow a verb. With any other text the line is Python, as in ``where = 5``."""


class Console:
    """Commands of one window's debug console; a command can name the groups of the last answer."""

    def __init__(self, window: Window, threads: Threads, keyboard: Keyboard) -> None:
        self._window = window
        self._threads = threads
        self._keyboard = keyboard
        self._memory = Memory()

    async def answer(self, text: str) -> str | None:
        """Return the answer to a command, or None if the text is an expression. Raises DbgError."""
        word, _, rest = text.strip().partition(" ")
        if word in ("take", "help") and rest:
            return None
        if word == "take":
            return await self._take()
        if word not in session_verbs() or not _OPERANDS.match(rest.strip()):
            return None
        verb = read_session_line(text, os.environ)
        if verb is None:
            return HELP
        if not isinstance(verb, RanksVerb):
            raise BadInput(f"`{verb.name}` is not for the debug console", "use it in a terminal")
        return (await self._ask(verb)).rstrip("\n")

    async def _ask(self, verb: RanksVerb) -> str:
        ranks = AsyncRanks(self._window.switchboard, self._memory, self._window.job, verb.target or verb.usual or "all")
        found = ranks.list()
        asks, those = verb.consent(found)
        if those and not verb.yes:
            names = name_few(those, self._window.switchboard.directory.ranks)
            raise BadInput(f"this would {asks.lower()} {names}", "write it with -y")
        answer = await ranks.ask(verb)
        return str(answer.text() or answer.hint)

    async def _take(self) -> str:
        if self._threads.focus is None:
            raise BadInput("no rank is selected", "choose a stopped rank first")
        taken = self._window.now(self._threads.focus)
        await self._keyboard.seize(taken)
        return f"This window has the keyboard of {printable(taken.address)}."


class LogTexts:
    """Texts of log points, each on a line; the broker limits their number."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._keys: frozenset[str] | None = None
        """Keys of the window's ranks; None after a change, until they are needed again."""

    async def receive(self, event: Event) -> None:
        """Print a log text from a rank of this window."""
        if isinstance(event, LISTS):
            self._keys = None
        elif isinstance(event, Logged) and event.key in self._known():
            if event.left_out:
                self._window.write(f"Log texts not shown here: {event.left_out}; they are in the job's output.")
            rank = self._window.switchboard.directory.by_key[event.key]
            self._window.write(f"{printable(rank.address)}: {printable(event.text, MAX_TEXT)}", "stdout")

    def _known(self) -> frozenset[str]:
        if self._keys is None:
            try:
                self._keys = frozenset(rank.key for rank in self._window.ranks)
            except DbgError:
                # The target matches several jobs; the thread list reports that error.
                self._keys = frozenset()
        return self._keys
