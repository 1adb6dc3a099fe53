"""The debug console, a REPL: an expression in the selected frame, and the verbs of a session to many ranks."""

from __future__ import annotations

import asyncio
import os
import re
from collections import defaultdict

from dbg_client.api.ranks import AsyncRanks, Memory
from dbg_client.command_line.session_line import read_session_line, session_verbs
from dbg_client.core.directory import LISTS
from dbg_client.core.link import Event
from dbg_client.dap.moves import Keyboard
from dbg_client.dap.window import Threads, Window
from dbg_client.verbs.orders import Interrupt
from dbg_client.verbs.verb import GroupedAnswer, RanksVerb
from dbg_client.views.naming import Naming, clip, name_few
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Kind, Logged
from dbg_wire.records.ranks import RankInfo, RankState

HELP = """\
EXPRESSION            in the selected frame of the selected rank; a statement is run there
eval RANKS EXPRESSION in many ranks, as in `eval all loss`; equal answers are one group
where, why, interrupt and the other verbs are those of a terminal after Ctrl-] :
take                  take the keyboard of the selected rank
give                  leave it to the terminals
help                  these lines
RANKS are as on the command line: 5, 0-7, all, stopped, @1, gpu013:*."""

COMMANDS = {
    "list": "`list` in the debug console",
    "wait": "this window",
    "interrupt": "`interrupt {ranks}` in the debug console",
    "release": "`release {ranks}` in the debug console",
    "attach": "`where {ranks}` in the debug console",
}
"""What does it in an IDE where an error names a command of the terminal."""

GATHER_SECONDS = 0.1
"""Seconds for which texts are gathered: ranks of one job come to a line nearly at the same time."""

MAX_GATHERED = 500
"""Texts that are gathered at most; with more, those that have come are printed at once."""

MAX_NAMES = 60
"""Columns for the ranks that have logged a text."""

MAX_TEXT = 4000
"""Characters of a text that the console shows; an escaped one is longer than what the broker sends."""

_OWN = ("take", "give", "help")

_OPERANDS = re.compile(r"(?!(?:and|if|in|is|not|or)\b)(?:--?\w|[@!]?\w|$)")
"""What may stand after a verb; anything else after a name is Python, as in ``where = 5``."""


class Console:
    """The commands of one window's debug console; the groups of an answer can be named in the next question."""

    def __init__(self, window: Window, threads: Threads, keyboard: Keyboard) -> None:
        self._window = window
        self._threads = threads
        self._keyboard = keyboard
        self._memory = Memory()

    async def answer(self, text: str) -> str | None:
        """Return the answer to a command, None for what is an expression. Raises DbgError."""
        word, _, rest = text.strip().partition(" ")
        if word in _OWN:
            return await self._own(word) if not rest else None
        if word not in session_verbs() or not _OPERANDS.match(rest.strip()):
            return None
        verb = read_session_line(text, os.environ)
        if verb is None:
            return HELP
        if not isinstance(verb, RanksVerb):
            raise BadInput(f"`{verb.name}` is not for the debug console", "use it in a terminal")
        return (await self._ask(verb)).rstrip("\n")

    def completions(self, text: str) -> list[str]:
        """Return the words of the console that begin with ``text``, which is all of the line before the cursor."""
        return [word for word in (*sorted(session_verbs()), *_OWN) if text and word.startswith(text)]

    async def _ask(self, verb: RanksVerb) -> str:
        ranks = AsyncRanks(self._window.switchboard, self._memory, self._window.job, verb.target or verb.usual or "all")
        found = ranks.list()
        asks, those = verb.consent(found)
        if those and not verb.yes:
            names = name_few(those, self._window.switchboard.directory.ranks)
            raise BadInput(f"this would {asks.lower()} {names}", "write it with -y")
        is_running = len(found) == 1 and found[0].state is RankState.RUNNING
        answer = await ranks.ask(verb)
        if is_running and isinstance(verb, Interrupt) and isinstance(answer, GroupedAnswer):
            ((rank, said),) = answer.answers
            if said.kind in (Kind.VALUE, Kind.RUNNING):
                await self._keyboard.seize_at_stop(rank, has_stopped=said.kind is Kind.VALUE)
        return str(answer.text() or answer.hint)

    async def _own(self, word: str) -> str:
        if word == "help":
            return HELP
        if word == "take":
            if self._threads.focus is None:
                raise BadInput("no rank is selected", "choose a stopped rank first")
            taken = self._window.now(self._threads.focus)
            await self._keyboard.seize(taken)
            return f"This window has the keyboard of {printable(taken.address)}."
        given = self._keyboard.give()
        if given is None:
            return "This window has no keyboard."
        return f"The keyboard of {printable(given.address)} is free; the rank stays as it is."


class LogTexts:
    """Texts of log points, debounced: one that many ranks log at nearly the same time is one line."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._ranks: dict[str, RankInfo] | None = None
        """The ranks of the window by their keys; None after a change, until they are needed."""
        self._gathered: defaultdict[str, dict[str, RankInfo]] = defaultdict(dict)
        """The ranks that have logged each text, by their keys."""
        self._left_out = 0
        self._due: asyncio.TimerHandle | None = None

    async def receive(self, event: Event) -> None:
        """Gather the text of a rank of this window."""
        if isinstance(event, LISTS):
            self._ranks = None
        elif isinstance(event, Logged) and (rank := self._known().get(event.key)) is not None:
            self._gather(rank, event)

    def close(self) -> None:
        """Print what has come, and no more."""
        self._print()

    def _known(self) -> dict[str, RankInfo]:
        if self._ranks is None:
            try:
                self._ranks = {rank.key: rank for rank in self._window.ranks}
            except DbgError:
                # The target is of several jobs, which the list of threads tells.
                self._ranks = {}
        return self._ranks

    def _gather(self, rank: RankInfo, event: Logged) -> None:
        if rank.key in self._gathered[event.text] or sum(map(len, self._gathered.values())) >= MAX_GATHERED:
            self._print()
        self._left_out += event.left_out
        self._gathered[event.text][rank.key] = rank
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._print)

    def _print(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        gathered, left_out = dict(self._gathered), self._left_out
        self._gathered.clear()
        self._left_out = 0
        if not gathered:
            return
        if left_out:
            self._window.tell(f"Log texts left out here: {left_out}; the job's output has them.")
        naming = Naming(tuple(self._known().values()))
        lines = [
            f"{printable(clip(naming.names(list(ranks.values())), MAX_NAMES))}: {printable(text, MAX_TEXT)}"
            for text, ranks in gathered.items()
        ]
        self._window.tell("\n".join(lines), "stdout")
