"""The debug console, a REPL: an expression in the selected frame, and some of the terminal's commands to many ranks."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dbg_client.api.ranks import AsyncRanks, Memory
from dbg_client.core.directory import LISTS
from dbg_client.core.link import Event
from dbg_client.dap.listing import MAX_SHOWN, Threads
from dbg_client.dap.moves import Keyboard
from dbg_client.dap.window import Window
from dbg_client.verbs.table import is_target
from dbg_client.views.naming import Naming, clip
from dbg_wire.errors import BadInput, DbgError, printable
from dbg_wire.messages import Logged
from dbg_wire.records.ranks import RankInfo, RankState

_QUESTION = re.compile(r"(?P<ranks>\S+):\s+(?P<text>\S.*)", re.DOTALL)
"""``0-7: loss``; the rank set has no blank, and one stands behind the colon."""

HELP = """\
EXPRESSION         in the selected frame of the selected rank; a statement is run there
RANKS: EXPRESSION  in many ranks, as in `all: loss` or `0-7: loss`; equal answers are one group
where [RANKS]      the stacks as one tree; running ranks answer, too
why [RANKS]        why the job does not go on
pause RANKS        break into ranks that run
continue RANKS     let stopped ranks go on
take               take the keyboard of the selected rank
give               leave it to the terminals
help               these lines
RANKS are as on the command line: 5, 0-7, all, stopped, @1, gpu013:*."""

COMMANDS = {
    "list": "`where all` in the debug console",
    "wait": "this window",
    "interrupt": "`pause {ranks}` in the debug console",
    "release": "`continue {ranks}` in the debug console",
    "attach": "`where {ranks}` in the debug console",
}
"""What does it in an IDE where an error names a command of the terminal."""

GATHER_SECONDS = 0.1
"""Seconds for which texts are gathered: ranks of one job come to a line nearly at the same time."""

MAX_GATHERED = 500
"""Texts that are gathered at most; with more, those that have come are printed at once."""

MAX_TEXT = 4000
"""Characters of a text that the console shows; an escaped one is longer than what the broker sends."""


@dataclass(frozen=True, slots=True)
class _Command:
    """A word of the console. ``needs`` tells that ranks have to be named, ``takes`` that they may be."""

    do: Callable[[str], Awaitable[str]]
    takes: bool = True
    needs: bool = False


class Console:
    """The commands of one window's debug console; the groups of an answer can be named in the next question."""

    def __init__(self, window: Window, threads: Threads, keyboard: Keyboard) -> None:
        self._window = window
        self._threads = threads
        self._keyboard = keyboard
        self._memory = Memory()
        self._commands = {
            "where": _Command(self._where),
            "why": _Command(self._why),
            "pause": _Command(self._pause, needs=True),
            "continue": _Command(self._continue, needs=True),
            "take": _Command(self._take, takes=False),
            "give": _Command(self._give, takes=False),
            "help": _Command(self._help, takes=False),
        }

    async def answer(self, text: str) -> str | None:
        """Return the answer to a command, None for what is an expression. Raises DbgError."""
        asked = _QUESTION.fullmatch(text.strip())
        if asked is not None and is_target(asked["ranks"]):
            return str(await self._ranks(asked["ranks"]).eval(asked["text"])).rstrip("\n")
        word, _, rest = text.strip().partition(" ")
        command, ranks = self._commands.get(word), rest.strip()
        if command is None or (ranks and not (command.takes and is_target(ranks))):
            return None
        if command.needs and not ranks:
            raise BadInput(f"`{word}` needs ranks", f"write `{word} all`, or `{word} 0-7`")
        return (await command.do(ranks or "all")).rstrip("\n")

    def completions(self, text: str) -> list[str]:
        """Return the words of the console that begin with ``text``, which is all of the line before the cursor."""
        return [word for word in (*self._commands, "all: ") if text and word.startswith(text)]

    def _ranks(self, wanted: str) -> AsyncRanks:
        return AsyncRanks(self._window.switchboard, self._memory, self._window.job, wanted)

    async def _where(self, ranks: str) -> str:
        return (await self._ranks(ranks).where()).tree()

    async def _why(self, ranks: str) -> str:
        return str(await self._ranks(ranks).why())

    async def _pause(self, ranks: str) -> str:
        found = self._ranks(ranks)
        running = [rank for rank in found.list() if rank.state is RankState.RUNNING]
        answer = await found.interrupt()
        if len(running) == len(found) == 1 and not answer.errors:
            await self._keyboard.seize_at_stop(running[0], has_stopped=bool(answer.values))
        return str(answer)

    async def _continue(self, ranks: str) -> str:
        return str(await self._ranks(ranks).resume())

    async def _take(self, ranks: str) -> str:
        rank = self._selected()
        await self._keyboard.seize(rank)
        return f"This window has the keyboard of {printable(rank.address)}."

    async def _give(self, ranks: str) -> str:
        rank = self._keyboard.give()
        if rank is None:
            return "This window has no keyboard."
        return f"The keyboard of {printable(rank.address)} is free; the rank stays as it is."

    async def _help(self, ranks: str) -> str:
        return HELP

    def _selected(self) -> RankInfo:
        rank = self._threads.focus
        if rank is None:
            raise BadInput("no rank is selected", "choose a stopped rank first")
        return self._window.now(rank)


class LogTexts:
    """Texts of log points, debounced: one that many ranks log at nearly the same time is one line."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._ranks: dict[str, RankInfo] | None = None
        """The ranks of the window by their keys; None after a change, until they are needed."""
        self._gathered: dict[tuple[str, int], list[RankInfo]] = {}
        """The ranks of each text; one that a rank has logged twice is there a second time."""
        self._count: Counter[tuple[str, str]] = Counter()
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
        self._left_out += event.left_out
        self._gathered.setdefault((event.text, self._count[rank.key, event.text]), []).append(rank)
        self._count[rank.key, event.text] += 1
        if self._count.total() >= MAX_GATHERED:
            self._print()
        elif self._due is None:
            self._due = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._print)

    def _print(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        gathered, left_out = self._gathered, self._left_out
        self._gathered, self._count, self._left_out = {}, Counter(), 0
        if not gathered:
            return
        if left_out:
            self._window.tell(f"Log texts left out here: {left_out}; the job's output has them.")
        naming = Naming(tuple(self._known().values()))
        lines = [
            f"{printable(clip(naming.names(ranks), MAX_SHOWN))}: {printable(text, MAX_TEXT)}"
            for (text, _), ranks in gathered.items()
        ]
        self._window.tell("\n".join(lines), "stdout")
