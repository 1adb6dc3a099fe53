"""The breakpoints of one IDE: each is set in all ranks of the window, in those that come later, too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dbg_client.core.directory import RankChange
from dbg_client.dap.breakpoint_table import (
    BreakpointTable,
    ShownBreakpoint,
    asked_file,
    asked_wishes,
    exception_answer,
)
from dbg_client.dap.messages import Message
from dbg_client.dap.source import Paths, SourceLocator
from dbg_client.dap.window import Window
from dbg_client.questions.breakpoints import ask_breakpoints
from dbg_wire.errors import BrokerUnreachable, DbgError
from dbg_wire.records.breakpoints import BreakpointWish, LineOfFile
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState

SECONDS = 2.0
"""Seconds for ranks to answer: the IDE waits with the rest of its start. What comes later is told as an event."""


class Breakpoints:
    """What one IDE has set, and its ranks by :meth:`follow`; belongs to one event loop."""

    def __init__(self, window: Window, paths: Paths, sources: SourceLocator, first_line: int = 1) -> None:
        self._window = window
        self._paths = paths
        self._sources = sources
        self._first_line = first_line
        self._table = BreakpointTable()
        self._greeted: set[str] = set()
        self._dirty: set[str] = set()
        self._is_due = asyncio.Event()
        # One change after the other reaches the ranks, in the order in which the IDE made them.
        self._turn = asyncio.Lock()

    async def set(self, arguments: Message) -> Message:
        """Have these breakpoints and no others of this IDE in a file of all ranks; return what ranks say of each.

        Raises BadInput for a file that ranks can't have.
        """
        file = asked_file(arguments, self._paths)
        asked = asked_wishes(arguments, file, self._first_line)
        if not self._window.may_act:
            text = "a watcher's token sets no breakpoints; start this window with a driver's token"
            return {"breakpoints": [{"verified": False, "message": text} for _ in asked]}
        async with self._turn:
            plan = self._table.replace(file, [wish for wish in asked if isinstance(wish, BreakpointWish)])
            ranks = self._ranks()
            await self._apply([rank for rank in ranks if rank.key in self._greeted], plan.clear, plan.set)
            await self._greet([rank for rank in ranks if rank.key not in self._greeted])
            if plan.set and ranks:
                await self._compare(file, ranks)
            lines = iter(plan.lines)
            rows = [
                {"verified": False, "message": one} if isinstance(one, str) else self._row(next(lines), ranks)
                for one in asked
            ]
        return {"breakpoints": rows}

    async def set_exceptions(self, arguments: Message) -> Message:
        """Return which exceptions stop ranks: those that were started so stay where they crash."""
        return exception_answer(arguments)

    async def reach(self, rank: RankInfo) -> None:
        """Have a rank that has just come have the breakpoints of the IDE, before it moves."""
        if rank.key in self._greeted or rank.is_classic or not self._window.may_act:
            return
        async with self._turn:
            if rank.key not in self._greeted:
                await self._greet([rank])
                self.stale(rank.key)

    async def leave(self) -> None:
        """Clear in the ranks what this IDE has set; what their debuggers have set stays. Never an error."""
        async with self._turn:
            clear = [LineOfFile(file=wish.file, line=wish.line) for wish in self._table.wishes]
            if clear:
                await self._apply(self._ranks(), clear, ())

    def stale(self, key: str) -> None:
        """Have a rank asked anew for the breakpoints that it has."""
        self._dirty.add(key)
        self._is_due.set()

    async def follow(self) -> None:
        """Keep ranks and IDE up to date until the link to the broker is closed."""
        asking = asyncio.create_task(self._refresh())
        try:
            async with self._window.switchboard.news() as news:
                for rank in self._ranks():
                    self._note(RankChange(before=None, now=rank))
                while True:
                    self._note(await news.next())
        except BrokerUnreachable:
            return
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    # ------------------------------------------------------------------------------------------------------- the ranks

    def _ranks(self) -> list[RankInfo]:
        return [rank for rank in self._window.ranks if rank.state in LIVE_STATES and not rank.is_classic]

    def _note(self, change: RankChange) -> None:
        before, now = change.before, change.now
        if now is None or now.state not in LIVE_STATES:
            return
        was_stopped = before is not None and before.state is RankState.STOPPED
        is_stopped = now.state is RankState.STOPPED
        has_moved = was_stopped and before is not None and (before.occasion, before.where) != (now.occasion, now.where)
        if now.key not in self._greeted or was_stopped != is_stopped or has_moved:
            self.stale(now.key)

    async def _refresh(self) -> None:
        while True:
            await self._is_due.wait()
            await self._window.switchboard.until(lambda: self._window.switchboard.is_current or None)
            self._is_due.clear()
            keys, self._dirty = self._dirty, set()
            if not self._window.may_act:
                continue
            async with self._turn:
                ranks = self._ranks()
                self._table.keep_only(rank.key for rank in ranks)
                new = [rank for rank in ranks if rank.key not in self._greeted]
                await self._apply([rank for rank in ranks if rank.key in keys and rank.key in self._greeted], (), ())
                await self._greet(new)
                self._tell_ide(ranks)

    async def _greet(self, ranks: Sequence[RankInfo]) -> None:
        """Set all breakpoints of the IDE in ranks that have come since it set them."""
        wishes = self._table.wishes
        await self._apply(ranks, (), wishes)
        self._greeted.update(rank.key for rank in ranks)
        for file in {wish.file for wish in wishes if ranks}:
            await self._compare(file, ranks)

    async def _compare(self, file: str, ranks: Sequence[RankInfo]) -> None:
        """Find out whether the lines of the IDE's file are those that ranks run; a stopped one tells at once."""
        stopped = (rank for rank in ranks if rank.state is RankState.STOPPED)
        await self._sources.compared(next(stopped, ranks[0]), file, SECONDS)

    async def _apply(
        self, ranks: Sequence[RankInfo], clear: Sequence[LineOfFile], wishes: Sequence[BreakpointWish]
    ) -> None:
        """Clear and set in these ranks; with neither they are asked for what they have."""
        if not ranks:
            return
        problems: dict[str, str] = {}
        try:
            answer = await ask_breakpoints(self._window.asker(SECONDS), ranks, clear=clear, wanted=wishes)
        except DbgError as error:
            problems = dict.fromkeys((rank.key for rank in ranks), str(error))
        else:
            for rank, said in answer.said:
                if rank.key in answer.states:
                    self._table.note(rank.key, answer.states[rank.key])
                else:
                    problems[rank.key] = said.text
        # A question alone that fails leaves what is known, which is most likely still so.
        for key, problem in problems.items() if clear or wishes else ():
            self._table.failed(key, problem)

    # --------------------------------------------------------------------------------------------------------- the IDE

    def _tell_ide(self, ranks: Sequence[RankInfo]) -> None:
        for line, told in self._table.news(ranks):
            self._window.event("breakpoint", {"reason": "changed", "breakpoint": self._with_source(line, told)})

    def _row(self, line: ShownBreakpoint, ranks: Sequence[RankInfo]) -> Message:
        return self._with_source(line, self._table.shown(line, ranks))

    def _with_source(self, line: ShownBreakpoint, told: Message) -> Message:
        path = self._paths.to_ide(line.wish.file)
        # The IDE's number of a line differs from ours where it counts from 0.
        number = {"line": told["line"] - 1 + self._first_line} if "line" in told else {}
        reasons = [reason for reason in (told.get("message"), self._sources.problem(line.wish.file)) if reason]
        message = {"message": "; ".join(reasons)} if reasons else {}
        return {**told, **number, **message, "source": {"name": line.wish.file.rpartition("/")[2], "path": path}}
