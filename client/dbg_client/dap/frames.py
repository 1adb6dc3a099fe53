"""The stack of a stopped rank, and the numbers by which an IDE asks about its frames."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from dbg_client.dap.listing import Threads
from dbg_client.dap.messages import Message
from dbg_client.dap.source import Sources
from dbg_client.dap.threads import REST
from dbg_client.dap.window import Window
from dbg_wire.errors import BadInput, printable
from dbg_wire.messages import Action
from dbg_wire.records.ranks import Place, RankInfo

T = TypeVar("T", bound=Hashable)

MAX_HANDLES = 100_000
"""Numbers of one table; beyond it those of the rank that was asked about longest ago are forgotten."""


class Handles(Generic[T]):
    """Numbers that are valid while an owner stays at one version; a number is never used twice."""

    def __init__(self, most: int = MAX_HANDLES) -> None:
        self._most = most
        self._next = 1
        self._things: dict[int, tuple[str, T]] = {}
        self._owned: dict[str, tuple[int, dict[T, int]]] = {}

    def __len__(self) -> int:
        return len(self._things)

    def number(self, owner: str, version: int, thing: T) -> int:
        """Return the number of something, the same one each time; those of the owner's other versions are forgotten."""
        known = self._owned.pop(owner, None)
        if known is not None and known[0] != version:
            self._drop(known[1])
            known = None
        numbers = known[1] if known is not None else {}
        # At the end again: the owner at the beginning is the one that was asked about longest ago.
        self._owned[owner] = version, numbers
        if thing not in numbers:
            self._make_room(owner)
            numbers[thing] = self._next
            self._things[self._next] = owner, thing
            self._next += 1
        return numbers[thing]

    def find(self, number: object) -> tuple[str, int, T] | None:
        """Return the owner, its version and what the number stands for; None for a number that is forgotten."""
        found = self._things.get(number) if isinstance(number, int) else None
        return (found[0], self._owned[found[0]][0], found[1]) if found is not None else None

    def forget(self, owner: str) -> None:
        """Forget all numbers of an owner."""
        known = self._owned.pop(owner, None)
        if known is not None:
            self._drop(known[1])

    def _drop(self, numbers: dict[T, int]) -> None:
        for number in numbers.values():
            del self._things[number]

    def _make_room(self, owner: str) -> None:
        if len(self._things) < self._most:
            return
        oldest = next(iter(self._owned))
        if oldest != owner:
            self.forget(oldest)
        else:
            version, numbers = self._owned[owner]
            self._drop(numbers)
            numbers.clear()
            self._owned[owner] = version, numbers


class FrameOf(NamedTuple):
    """A frame of a stopped rank: as questions name it, the innermost being ``-1``."""

    rank: RankInfo
    name: str


class Frames:
    """The stacks of the ranks of a window, each kept until its rank moves."""

    def __init__(self, window: Window, threads: Threads, sources: Sources, first_line: int, first_column: int) -> None:
        self._window = window
        self._threads = threads
        self._sources = sources
        self._first_line, self._first_column = first_line, first_column
        self._numbers: Handles[str] = Handles()
        self._stacks: dict[str, tuple[int, asyncio.Task[tuple[Place, ...]]]] = {}

    async def stack_trace(self, arguments: Message) -> Message:
        """Answer ``stackTrace``: the innermost frame first."""
        if arguments.get("threadId") == REST:
            return {"stackFrames": [], "totalFrames": 0}
        rank = self._threads.standing(arguments.get("threadId"))
        version = self._threads.table.version(rank.key) or 0
        frames = (await self.stack(rank))[::-1]
        if self._threads.table.version(rank.key) != version:
            raise _stale(rank)
        self._threads.focus = rank
        self._threads.seen(rank)
        begin = count_of(arguments.get("startFrame"))
        levels = count_of(arguments.get("levels")) or len(frames)
        shown = [
            self._frame(rank, version, up, place) for up, place in enumerate(frames) if begin <= up < begin + levels
        ]
        return {"stackFrames": shown, "totalFrames": len(frames)}

    async def stack(self, rank: RankInfo) -> tuple[Place, ...]:
        """Return the frames of a rank, the outermost first; the rank is asked once for each of its stops."""
        version = self._threads.table.version(rank.key) or 0
        known = self._stacks.get(rank.key)
        if known is None or known[0] != version or _has_failed(known[1]):
            known = version, asyncio.ensure_future(self._ask(rank))
            self._stacks[rank.key] = known
            self._drop_old()
        return await asyncio.shield(known[1])

    def frame(self, number: object) -> FrameOf:
        """Return the frame with this number. Raises BadInput for one of an earlier stop."""
        found = self._numbers.find(number)
        rank = self._threads.of_key(found[0]) if found is not None else None
        if found is None or rank is None:
            raise BadInput("this frame is of an earlier stop", "choose one of the present stop")
        if self._threads.table.version(rank.key) != found[1] or not self._threads.table.stands(rank.key):
            raise _stale(rank)
        self._threads.focus = rank
        return FrameOf(rank, found[2])

    def innermost(self, rank: RankInfo) -> int:
        """Return the number of the innermost frame of a rank. Raises BadInput if it runs."""
        version = self._threads.table.version(rank.key)
        if version is None or not self._threads.table.stands(rank.key):
            raise BadInput(f"{printable(rank.address)} is running", "choose a frame of a stopped rank")
        return self._numbers.number(rank.key, version, "-1")

    def close(self) -> None:
        """Give up what is asked."""
        for _, task in self._stacks.values():
            task.cancel()

    async def _ask(self, rank: RankInfo) -> tuple[Place, ...]:
        return (await self._window.ask_one(Action.WHERE, rank)).frames

    def _drop_old(self) -> None:
        """Forget the stacks of ranks that have moved or ended."""
        for key in [key for key, (version, _) in self._stacks.items() if self._threads.table.version(key) != version]:
            del self._stacks[key]

    def _frame(self, rank: RankInfo, version: int, up: int, place: Place) -> Message:
        return {
            "id": self._numbers.number(rank.key, version, str(-1 - up)),
            "name": printable(place.function),
            "source": self._sources.source(rank, place.file),
            "line": max(0, place.line - 1 + self._first_line),
            "column": self._first_column,
        }


def _stale(rank: RankInfo) -> BadInput:
    return BadInput(f"this frame is of an earlier stop of {printable(rank.address)}", "choose one of the present stop")


def _has_failed(task: asyncio.Task[tuple[Place, ...]]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def count_of(value: object) -> int:
    """Return a number that an IDE has given, 0 for none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
