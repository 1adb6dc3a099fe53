"""Breakpoints of one IDE, set in all ranks of the window and in ranks that connect later."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from dbg_client.api.breakpoints import ask_breakpoints
from dbg_client.api.inspection import given
from dbg_client.dap.messages import Message
from dbg_client.dap.source import Paths
from dbg_client.dap.window import Window
from dbg_client.views.naming import Naming
from dbg_wire.errors import BadInput, BrokerUnreachable, DbgError, printable
from dbg_wire.limits import MAX_CONDITION, MAX_PATH
from dbg_wire.records.inspection import BreakpointSpec, BreakpointState, LineOfFile
from dbg_wire.records.ranks import LIVE_STATES, RankInfo, RankState
from dbg_wire.records.record import MAX_RANK

SECONDS = 2.0
"""Timeout for ranks' answers, in seconds. The IDE waits for them when it starts; later answers are sent as events."""

MAX_REASONS = 3
"""Maximum number of rank groups in one message, because the IDE shows the message on one line."""

MAX_OF_FILE = 1000
"""Maximum breakpoints of one file that an IDE may set.

A rank accepts only a hundred in all files together, and reports an error for each breakpoint above this number.
"""

NO_RANK = "no rank of the target is connected yet; the breakpoint will be set in each rank that connects"

WATCHES = "a watcher's token cannot set breakpoints; start this window with a driver's token"

LineAnswer = Mapping[str, BreakpointState | str]
"""Breakpoint of each rank, or the reason why the rank does not have it, by rank key."""

Reached = Mapping[str, RankState | None]


@dataclass(slots=True)
class _Line:
    """A breakpoint of the IDE, its DAP id, the ranks' answers, and the state last sent to the IDE."""

    id: int
    spec: BreakpointSpec
    by_rank: dict[str, BreakpointState | str]
    last_event: Message | None = None

    @property
    def at(self) -> LineOfFile:
        return LineOfFile(file=self.spec.file, line=self.spec.line)


class Breakpoints:
    """The breakpoints of one IDE; :meth:`follow` sets them in new ranks. Belongs to one event loop."""

    def __init__(self, window: Window, paths: Paths) -> None:
        self._window = window
        self._paths = paths
        self._ids = count(1)
        self._lines: dict[LineOfFile, _Line] = {}
        self._initialized: set[str] = set()
        """Ranks that have answered for all breakpoints."""
        # Serialize changes, so that ranks receive them in the order in which the IDE made them.
        self._turn = asyncio.Lock()

    async def set(self, arguments: Message) -> Message:
        """Replace this IDE's breakpoints of one file in all ranks, and return the ranks' answers for each breakpoint.

        Raises BadInput if the path cannot exist in a rank.
        """
        file = asked_file(arguments, self._paths)
        asked = requested_breakpoints(arguments, file)
        if not self._window.may_act:
            return {"breakpoints": [{"verified": False, "message": WATCHES} for _ in asked]}
        async with self._turn:
            lines, clear = self._replace(file, [spec for spec in asked if isinstance(spec, BreakpointSpec)])
            ranks = self._ranks()
            await self._apply([rank for rank in ranks if rank.key in self._initialized], clear, lines)
            await self._initialize_ranks(ranks)
            rows = iter([self._state_of(line, ranks) for line in lines])
            found = [{"verified": False, "message": one} if isinstance(one, str) else next(rows) for one in asked]
        return {"breakpoints": found}

    async def reach(self, rank: RankInfo) -> None:
        """Set the IDE's breakpoints in a rank that has just connected, before it moves."""
        if rank.key in self._initialized or rank.is_classic or not self._window.may_act:
            return
        async with self._turn:
            await self._initialize_ranks([rank])
            self._initialized.add(rank.key)
            self._report_changes(self._ranks())

    async def leave(self) -> None:
        """Clear this IDE's breakpoints in the ranks, but not their debuggers' own breakpoints. Never an error."""
        async with self._turn:
            if self._lines:
                await self._apply(self._ranks(), list(self._lines), ())

    async def follow(self) -> None:
        """Set the breakpoints in each new rank until the connection to the broker is closed."""
        switchboard = self._window.switchboard
        seen: Reached | None = None

        def news() -> Reached | None:
            now = self._reached()
            return now if switchboard.is_current and now != seen else None

        with suppress(BrokerUnreachable):
            while True:
                seen = await switchboard.until(news)
                if self._window.may_act:
                    async with self._turn:
                        ranks = self._ranks()
                        await self._initialize_ranks(ranks)
                        self._report_changes(ranks)

    # ------------------------------------------------------------------------------------------------------- the ranks

    def _replace(self, file: str, changes: Sequence[BreakpointSpec]) -> tuple[list[_Line], list[LineOfFile]]:
        """Replace this IDE's breakpoints of a file; return the new breakpoints, and the lines of those to clear."""
        before = {at: line for at, line in self._lines.items() if at.file == file}
        lines: dict[LineOfFile, _Line] = {}
        for spec in changes:
            at = LineOfFile(file=file, line=spec.line)
            known = before.pop(at, None) or lines.get(at)
            lines[at] = _Line(known.id if known is not None else next(self._ids), spec, {})
        for at in before:
            del self._lines[at]
        self._lines.update(lines)
        return [lines[LineOfFile(file=file, line=spec.line)] for spec in changes], list(before)

    def _ranks(self) -> list[RankInfo]:
        return [rank for rank in self._window.ranks if rank.state in LIVE_STATES and not rank.is_classic]

    def _reached(self) -> Reached:
        """Return for each live rank, by key, None if the rank has all breakpoints, else its state.

        A change of this mapping means that a rank may need breakpoints.
        """
        return {rank.key: None if rank.key in self._initialized else rank.state for rank in self._ranks()}

    async def _initialize_ranks(self, ranks: Sequence[RankInfo]) -> None:
        """Set all breakpoints of the IDE in ranks that have connected since the IDE set them."""
        # Unresponsive ranks would delay the others. They are asked when they respond again and their state changes.
        silent = RankState.UNRESPONSIVE
        new = [rank for rank in ranks if rank.key not in self._initialized and rank.state is not silent]
        await self._apply(new, (), list(self._lines.values()))
        if not self._lines:
            self._initialized.update(rank.key for rank in new)

    async def _apply(self, ranks: Sequence[RankInfo], clear: Sequence[LineOfFile], lines: Sequence[_Line]) -> None:
        """Clear and set breakpoints in these ranks, and store their answers."""
        if not ranks or not (clear or lines):
            return
        wanted = [line.spec for line in lines]
        try:
            answer = await ask_breakpoints(self._window.asker(SECONDS), ranks, clear=clear, wanted=wanted)
        except DbgError as error:
            for line in lines:
                line.by_rank.update(dict.fromkeys((rank.key for rank in ranks), str(error)))
            return
        self._initialized.update(answer.states)
        for line in lines:
            there = answer.at(line.at)
            for rank, by_rank in answer.by_rank:
                line.by_rank[rank.key] = there.get(rank.key, "" if rank.key in answer.states else by_rank.text)

    # --------------------------------------------------------------------------------------------------------- the IDE

    def _report_changes(self, ranks: Sequence[RankInfo]) -> None:
        """Report each breakpoint to the IDE if its state in the ranks has changed."""
        for line in self._lines.values():
            before = line.last_event
            if self._state_of(line, ranks) != before:
                self._window.event("breakpoint", {"reason": "changed", "breakpoint": line.last_event})

    def _state_of(self, line: _Line, ranks: Sequence[RankInfo]) -> Message:
        last_event = shown(line.spec.line, line.by_rank, ranks)
        file = line.spec.file
        source = {"name": file.rpartition("/")[2], "path": self._paths.to_ide(file)}
        line.last_event = {"id": line.id, **last_event, "source": source}
        return line.last_event


def shown(line: int, by_rank: LineAnswer, ranks: Sequence[RankInfo]) -> Message:
    """Return the IDE's view of a breakpoint requested at a line: its actual line, and the ranks without it."""
    at: defaultdict[int, list[RankInfo]] = defaultdict(list)
    lacking: defaultdict[str, list[RankInfo]] = defaultdict(list)
    notes: defaultdict[str, list[RankInfo]] = defaultdict(list)
    for rank in ranks:
        state = by_rank.get(rank.key, "")
        if isinstance(state, BreakpointState) and state.is_set:
            at[state.line].append(rank)
            if state.problem:
                notes[printable(state.problem)].append(rank)
        else:
            why = state if isinstance(state, str) else state.problem
            lacking[printable(why) or "it is not set there"].append(rank)
    usual = max(at, key=lambda one: len(at[one]), default=line)
    naming = Naming(ranks)

    def names(some: Iterable[RankInfo]) -> str:
        chosen = list(some)
        return f"rank{'s' if len(chosen) > 1 else ''} {naming.names(chosen)}"

    parts = [f"not in {names(some)}: {why}" for why, some in lacking.items()]
    parts += [f"at line {one} in {names(some)}" for one, some in at.items() if one != usual]
    parts += [note if len(some) == len(ranks) else f"{names(some)}: {note}" for note, some in notes.items()]
    left_out = f"; and {len(parts) - MAX_REASONS} more" if len(parts) > MAX_REASONS else ""
    text = "; ".join(parts[:MAX_REASONS]) + left_out
    if not ranks:
        text = NO_RANK
    elif not at and len(lacking) == 1:
        text = next(iter(lacking))
    return {"verified": bool(at), "line": usual, **({"message": text} if text else {})}


def asked_file(arguments: Message, paths: Paths) -> str:
    """Return the path that ranks use for the file of a request. Raises BadInput."""
    source = arguments.get("source")
    path = source.get("path") if isinstance(source, dict) else None
    if not isinstance(path, str) or not path:
        raise BadInput("this file has no path, so it cannot have breakpoints", "open it from the stack of a rank")
    file = paths.to_rank(path)
    if not file.startswith("/") or len(file) > MAX_PATH or not file.isprintable():
        raise BadInput(
            f"{printable(file)!r} is not a path of the ranks", "map its root in `pathMappings` of launch.json"
        )
    return file


def requested_breakpoints(arguments: Message, file: str) -> list[BreakpointSpec | str]:
    """Return each requested breakpoint of a file, or the reason why it is invalid. Raises BadInput."""
    given = arguments.get("breakpoints") or []
    if not isinstance(given, list) or len(given) > MAX_OF_FILE:
        raise BadInput(f"there are more than {MAX_OF_FILE} breakpoints of one file", "remove some")
    return [_requested(one, file) for one in given]


def _requested(one: object, file: str) -> BreakpointSpec | str:
    fields: Mapping[str, Any] = one if isinstance(one, dict) else {}
    line = fields.get("line")
    if not isinstance(line, int) or isinstance(line, bool) or not 1 <= line <= MAX_RANK:
        return f"{printable(repr(line), 40)} is not a line number"
    texts = {}
    for name, ours in (("condition", "condition"), ("hitCondition", "hits"), ("logMessage", "log")):
        text = fields.get(name) or ""
        if not isinstance(text, str) or len(text) > MAX_CONDITION:
            return f"{name} is not a text of at most {MAX_CONDITION} characters"
        texts[ours] = text.strip() if ours != "log" else text
    try:
        return given(BreakpointSpec, file=file, line=line, **texts)
    except BadInput as error:
        return printable(str(error))
