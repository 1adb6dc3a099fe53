"""Ranks of one job: questions and commands to them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from dbg_client.api.answers import Answer, Collectives, Numbers, Slow, Where, Why
from dbg_client.api.breakpoints import change_breakpoints
from dbg_client.api.inspection import file_in_ranks, given
from dbg_client.api.stop import AsyncStop, open_stop
from dbg_client.api.values import At, Variables, values_of
from dbg_client.command_line.session_line import read_scope
from dbg_client.core.asking import Asker
from dbg_client.core.choose import Choice, choose, choose_when_ready, find, is_ready
from dbg_client.core.directory import RankChange, changes_between
from dbg_client.core.errors import TimedOut
from dbg_client.core.remembered_groups import with_groups
from dbg_client.core.switchboard import Switchboard
from dbg_client.core.wait_progress import show_nobody
from dbg_client.verbs.control import Continue, Interrupt, Release
from dbg_client.verbs.table import load_verb
from dbg_client.verbs.values import Eval, PdbCommand
from dbg_client.verbs.verb import Asking, GroupedAnswer, RanksVerb
from dbg_client.verbs.where import Where as WhereVerb
from dbg_client.views.groups import group_answers
from dbg_client.views.naming import Naming
from dbg_command.targets import Target, parse_target
from dbg_wire.errors import BadInput, NoSuchRank, printable
from dbg_wire.records.inspection import BreakpointSpec, LineOfFile
from dbg_wire.records.ranks import RankInfo


class AsyncRanks:
    """Ranks of a job, looked up again at each call; belongs to the event loop of its broker."""

    def __init__(self, switchboard: Switchboard, memory: Memory, job: str, selector: Wanted) -> None:
        self._switchboard = switchboard
        self._memory = memory
        self._job = job
        self._wanted = selector

    # ------------------------------------------------------------------------------------------------------ selection

    def list(self) -> tuple[RankInfo, ...]:
        """Return these ranks as the broker lists them now. Raises NoSuchRank if no rank matches."""
        return self._found()

    def __len__(self) -> int:
        try:
            return len(self._found())
        except NoSuchRank:
            return 0

    # ------------------------------------------------------------------------------------------------------ questions

    async def eval(
        self,
        expression: str,
        *,
        frame: str = "",
        live: bool = False,
        timeout: float | None = None,
    ) -> Answer:
        """Evaluate an expression in each rank that is stopped or held; with ``live`` in running ranks, too.

        The expression is evaluated in the stopped thread. A ``frame`` that is not empty selects a frame of the thread.
        Returns within ``timeout`` seconds; the answer names the ranks that did not answer. Raises DbgError if the
        broker fails.
        """
        verb = Eval(expression=expression, frame=frame, live=live)
        return Answer(await self.ask(verb, timeout=timeout))

    async def command(self, text: str, *, frame: str = "", timeout: float | None = None) -> Answer:
        """Run a pdb command, such as ``n`` or ``p x``, in each of these ranks that is stopped."""
        return Answer(await self.ask(PdbCommand(command=text, frame=frame), timeout=timeout))

    async def where(self, *, threads: bool = False, timeout: float | None = None) -> Where:
        """Return the stacks of these ranks, including running ones; with ``threads``, of all their threads."""
        return Where(await self.ask(WhereVerb(threads=threads), timeout=timeout))

    async def variables(
        self,
        of: str = "",
        *,
        scope: str = "locals",
        start: int = 0,
        count: int = 0,
        frame: str = "",
        timeout: float | None = None,
    ) -> Variables:
        """Return variables of the target's only stopped rank: a frame's variables, or parts of an expression's value.

        ``scope`` is ``locals`` or ``globals``. Returns ``count`` variables from number ``start`` on, at most 200; a
        ``count`` of 0 means 200. Raises RankError, NotStopped and AmbiguousTarget.
        """
        rank = choose(self._target(), self._switchboard.directory.ranks).rank
        return await values_of(self._switchboard, rank).variables(of or None, scope, start, count, At(frame, timeout))

    async def why(self, *, timeout: float | None = None) -> Why:
        """Explain why the job of these ranks makes no progress; this may take several snapshots over some seconds."""
        answer = await self.ask(load_verb("why")(), timeout=timeout)
        return Why(answer, answer.found.missing)

    async def slow(self, seconds: float = 10.0, *, timeout: float | None = None) -> Slow:
        """Find the ranks that slow down the job of these ranks; the ranks first sample themselves for ``seconds``.

        Raises BadInput if ``seconds`` is too long, and DbgError if the broker fails.
        """
        return Slow(await self.ask(load_verb("slow")(seconds=seconds), timeout=timeout))

    async def numbers(self, watch: str = "", *, seconds: float | None = None, timeout: float | None = None) -> Numbers:
        """Return the first wrong number of each rank, as the watches over the numbers of a training have found it.

        With ``watch`` (``nan`` or ``different``), first start this watch, and wait until a rank has stopped at a wrong
        number, for at most ``seconds``. With ``off``, end the watches. Raises BadInput for another watch, and DbgError
        if the broker fails.
        """
        verb = load_verb("watch")(watch=watch, bound=seconds) if watch else load_verb("numbers")()
        verb.check()
        return Numbers(await self.ask(verb, timeout=timeout))

    async def collectives(self, *, timeout: float | None = None) -> Collectives:
        """Return the most recent collective of each process group of the job, and the ranks in it."""
        return Collectives(await self.ask(load_verb("collectives")(), timeout=timeout))

    # --------------------------------------------------------------------------------------------------------- orders

    async def interrupt(self, *, timeout: float | None = None) -> Answer:
        """Stop these ranks where they are; a rank in C code reports this, and stops when that code returns."""
        return Answer(await self.ask(Interrupt(), timeout=timeout))

    async def resume(self, *, timeout: float | None = None) -> Answer:
        """Resume the stopped ranks among these, and withdraw an :meth:`interrupt` that has not stopped its rank yet."""
        found = self._found()
        self._memory.note_resumed([rank for rank in found if is_ready(rank)])
        return self._kept(await Continue().give(self._asker(timeout), found))

    async def release(self, *, timeout: float | None = None) -> Answer:
        """Release the held ranks among these, which wait for other ranks."""
        return self._kept(await Release().give(self._asker(timeout), self._found()))

    async def breakpoints(self, *, timeout: float | None = None) -> Answer:
        """Return the breakpoints of each of these ranks, including running ranks and breakpoints of PuDB and pdb."""
        return await self._breakpoints(timeout, self._found(), "breakpoints")

    async def set_breakpoint(
        self,
        file: str,
        line: int,
        *,
        condition: str = "",
        hits: str = "",
        log: str = "",
        timeout: float | None = None,
    ) -> Answer:
        """Set or change a breakpoint at a line of a file in each of these ranks, including running ones.

        A rank stops if ``condition`` is true. ``hits`` compares how often the program has reached the line: ``>= 3`` or
        ``% 100 == 0``. If ``log`` is set, the rank prints this text, which may contain ``{expression}``, and continues.
        The answer shows the ranks that have set the breakpoint, and the new line if a rank has moved it to a line with
        code. For the other ranks the answer shows the reason. Raises BadInput if the file is not found in these ranks.
        """
        ranks = self._found()
        place = await self._line_in(ranks, file, line, timeout)
        spec = given(BreakpointSpec, file=place.file, line=line, condition=condition, hits=hits, log=log)
        return await self._breakpoints(timeout, ranks, f"breakpoint {place.file}:{line}", place, spec)

    async def clear_breakpoint(self, file: str, line: int, *, timeout: float | None = None) -> Answer:
        """Remove the breakpoint from each of these ranks, given its requested line or its actual line."""
        ranks = self._found()
        place = await self._line_in(ranks, file, line, timeout)
        return await self._breakpoints(timeout, ranks, f"clear {place.file}:{line}", place)

    async def wait(self, seconds: float | None = None) -> RankInfo:
        """Wait until one of these ranks is stopped, and return it. Raises TimedOut after ``seconds``."""
        return await first_stop(self._switchboard, self._memory, self._target(), seconds)

    @asynccontextmanager
    async def attach(self, engine: str | None = "pdb", *, take: bool = False) -> AsyncIterator[AsyncStop]:
        """Attach to the one stopped rank of the target, and hold its keyboard until the ``with`` ends.

        The rank stays stopped. With ``take`` the keyboard is taken from another terminal. Raises NotStopped,
        RankEnded, or a Refused.
        """
        rank = choose(self._target(), self._switchboard.directory.ranks).rank
        async with open_stop(self._switchboard, rank, engine, take=take) as stop:
            yield stop

    # ---------------------------------------------------------------------------------------------------------- inner

    def _asker(self, timeout: float | None) -> Asker:
        return Asker(self._switchboard, timeout)

    def _target(self) -> Target:
        return read_selector(self._wanted, self._job, self._memory.groups)

    def _found(self) -> tuple[RankInfo, ...]:
        return find(self._target(), self._switchboard.directory.ranks).ranks

    async def ask(self, verb: RanksVerb, *, timeout: float | None = None) -> Any:
        """Ask a verb's question, and remember the groups of the answer for later targets."""
        asking = Asking(
            asker=self._asker(timeout),
            ranks=self._found(),
            known=self._switchboard.directory.ranks,
            target=self._target(),
            show=show_nobody,
        )
        answer = await verb.ask(asking)
        self._memory.keep(answer.groups)
        return answer

    async def _breakpoints(
        self,
        timeout: float | None,
        ranks: Sequence[RankInfo],
        command: str,
        at: LineOfFile | None = None,
        spec: BreakpointSpec | None = None,
    ) -> Answer:
        by_rank = await change_breakpoints(self._asker(timeout), ranks, at, spec)
        grouped = tuple(group_answers(by_rank))
        return self._kept(GroupedAnswer(command=command, answers=by_rank, grouped=grouped, naming=Naming(ranks)))

    async def _line_in(self, ranks: Sequence[RankInfo], file: str, line: int, timeout: float | None) -> LineOfFile:
        return given(LineOfFile, file=await file_in_ranks(self._asker(timeout), ranks, os.fspath(file)), line=line)

    def _kept(self, answer: GroupedAnswer) -> Answer:
        self._memory.keep(answer.groups)
        return Answer(answer)

    def __repr__(self) -> str:
        return f"<ranks {target_text(self._wanted)!r} of job {self._job!r}>"


class AsyncJob(AsyncRanks):
    """All ranks of one job; ``job["0-7"]``, ``job[5]`` and ``job["@1"]`` select some of them."""

    def __init__(self, switchboard: Switchboard, memory: Memory, name: str) -> None:
        super().__init__(switchboard, memory, name, "all")

    @property
    def name(self) -> str:
        """Name of the job."""
        return self._job

    def __getitem__(self, selector: Wanted) -> AsyncRanks:
        return AsyncRanks(self._switchboard, self._memory, self.name, selector)

    async def events(self) -> AsyncGenerator[RankChange, None]:
        """Yield each change of a rank of this job from now on, until the program stops iterating.

        Several changes of one rank that arrive at once, or while the program is busy, become one change from the first
        state to the last. Raises BrokerUnreachable when the connection to the broker is closed.
        """
        directory = self._switchboard.directory
        before = dict(directory.by_key)

        def changed() -> dict[str, RankInfo] | None:
            return dict(directory.by_key) if directory.by_key != before else None

        while True:
            now = await self._switchboard.until(changed)
            for change in changes_between(before, now):
                if change.rank.job == self.name:
                    yield change
            before = now

    def __repr__(self) -> str:
        return f"<job {self.name!r}>"


async def first_stop(switchboard: Switchboard, memory: Memory, target: Target, seconds: float | None) -> RankInfo:
    """Wait until a rank of a target is stopped, and return it. Raises TimedOut and AmbiguousTarget."""
    directory = switchboard.directory

    def chosen() -> Choice | None:
        # The broker may still list a rank as stopped for a short time after the rank was resumed.
        return choose_when_ready(target, memory.without_resumed(directory.ranks)) if directory.complete else None

    try:
        return (await switchboard.until(chosen, seconds)).rank
    except TimeoutError:
        raise TimedOut(f"{printable(target.text)} did not stop within {seconds:g} s") from None


Wanted = str | int | Sequence[int]
"""Ranks of a job: a target such as ``"0-7"``, ``"stopped"`` or ``"@1"``, a rank number, or several numbers."""


def target_text(selector: Wanted) -> str:
    """Return the text that a user would type for these ranks. Raises BadInput if ``selector`` selects no ranks."""
    if isinstance(selector, str):
        return selector
    if isinstance(selector, int):
        return str(selector)
    numbers = list(selector) if isinstance(selector, Iterable) else [selector]
    if not numbers or not all(isinstance(number, int) for number in numbers):
        raise BadInput(f"{numbers!r} is not a list of ranks", "use rank numbers, as in job[[0, 3]]")
    return ",".join(map(str, numbers))


def read_selector(selector: Wanted, job: str, groups: Mapping[str, frozenset[str]]) -> Target:
    """Return the target for ranks of one job; ``groups`` are the groups of the most recent answer.

    Raises BadTarget and UnknownGroup.
    """
    return read_scope(with_groups(parse_target(target_text(selector)), groups), job)


def any_target(selector: Wanted, groups: Mapping[str, frozenset[str]]) -> Target:
    """Return the target for ranks of any job."""
    return with_groups(parse_target(target_text(selector)), groups)


class Memory:
    """The groups of the most recent answer, by name, and for each rank the last stop that the program resumed."""

    def __init__(self) -> None:
        self.groups: Mapping[str, frozenset[str]] = {}
        self._resumed: dict[str, float] = {}

    def keep(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Remember the groups of an answer instead of the previous groups."""
        self.groups = {name: frozenset(keys) for name, keys in groups.items()}

    def note_resumed(self, ranks: Sequence[RankInfo]) -> None:
        """Record that these ranks were resumed: the broker lists them as stopped until its next update."""
        self._resumed.update((rank.key, rank.stop_id) for rank in ranks)

    def without_resumed(self, ranks: Sequence[RankInfo]) -> list[RankInfo]:
        """Return the ranks, except resumed ranks that the broker still lists as stopped."""
        return [rank for rank in ranks if not (is_ready(rank) and self._resumed.get(rank.key) == rank.stop_id)]
