"""Stacks and values of stopped ranks as an IDE shows them, and the numbers by which the IDE refers to them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from dbg_client.api.values import At, Variable
from dbg_client.dap.messages import Message
from dbg_client.dap.source import SourceLocator
from dbg_client.dap.step_requests import Keyboard
from dbg_client.dap.window import Threads, Window
from dbg_wire.errors import BadInput, printable
from dbg_wire.messages import Action
from dbg_wire.records.inspection import MAX_VARIABLES, Parts, Scope
from dbg_wire.records.ranks import Place, RankInfo

T = TypeVar("T", bound=Hashable)

MAX_HANDLES = 100_000
"""Maximum entries of one table of numbered objects; a full table is emptied."""

MAX_ROWS = 2000
"""Maximum variables in one answer to an IDE that requests all of them."""

_FILTERS = {"named": Parts.NAMED, "indexed": Parts.INDEXED}


class Handles(Generic[T]):
    """Numbers for objects of ranks. A number is valid for one version of its rank, and is not reused.

    A table with ``most`` entries is emptied before the next number; the IDE then requests its objects again.
    """

    def __init__(self, most: int = MAX_HANDLES) -> None:
        self._most = most
        self._next = 1
        self._things: dict[int, tuple[str, int, T]] = {}
        self._numbers: dict[tuple[str, int, T], int] = {}

    def number(self, owner: str, version: int, thing: T) -> int:
        """Return the number of an object: the same number for each call with equal arguments."""
        key = owner, version, thing
        if key not in self._numbers:
            if len(self._things) >= self._most:
                self._things.clear()
                self._numbers.clear()
            self._numbers[key] = self._next
            self._things[self._next] = key
            self._next += 1
        return self._numbers[key]

    def find(self, number: object) -> tuple[str, int, T] | None:
        """Return the owner, its version and the numbered object, or None for a forgotten number."""
        return self._things.get(number) if isinstance(number, int) else None


class FrameOf(NamedTuple):
    """A frame of a stopped rank, named as in questions: ``-1`` is the innermost."""

    rank: RankInfo
    name: str


class Frames:
    """The stacks of the ranks of a window."""

    def __init__(self, window: Window, threads: Threads, sources: SourceLocator) -> None:
        self._window = window
        self._threads = threads
        self._sources = sources
        self._numbers: Handles[str] = Handles()

    async def stack_trace(self, arguments: Message) -> Message:
        """Answer ``stackTrace``, innermost frame first."""
        rank = self._threads.stopped_rank(arguments.get("threadId"))
        version = self._threads.table.version(rank.key)
        frames = (await self._window.ask_one(Action.WHERE, rank)).frames[::-1]
        if self._threads.table.version(rank.key) != version:
            raise BadInput(f"this frame is of an earlier stop of {printable(rank.address)}", "choose a current frame")
        self._threads.focus = rank
        shown = [self._frame(rank, version, up, place) for up, place in enumerate(frames)]
        return {"stackFrames": shown, "totalFrames": len(shown)}

    def frame(self, number: object) -> FrameOf:
        """Return the frame with this number. Raises BadInput if the frame is of an earlier stop."""
        rank, name = _present(self._threads, self._numbers, number, "this frame is", "choose a current frame")
        self._threads.focus = rank
        return FrameOf(rank, name)

    def innermost(self, rank: RankInfo) -> int:
        """Return the number of a rank's innermost frame. Raises BadInput if the rank is running."""
        if not self._threads.table.is_stopped(rank.key):
            raise BadInput(f"{printable(rank.address)} is running", "choose a frame of a stopped rank")
        return self._numbers.number(rank.key, self._threads.table.version(rank.key), "-1")

    def _frame(self, rank: RankInfo, version: int, up: int, place: Place) -> Message:
        return {
            "id": self._numbers.number(rank.key, version, str(-1 - up)),
            "name": printable(place.function),
            "source": self._sources.source(rank, place.file),
            "line": max(0, place.line),
            "column": 1,
        }


def _present(threads: Threads, numbers: Handles[T], number: object, what_is: str, remedy: str) -> tuple[RankInfo, T]:
    """Return the rank and the object of a number. Raises BadInput if the number is of an earlier stop."""
    found = numbers.find(number)
    rank = threads.rank_of_key(found[0]) if found is not None else None
    if found is None or rank is None:
        raise BadInput(f"{what_is} of an earlier stop", remedy)
    if threads.table.version(rank.key) != found[1] or not threads.table.is_stopped(rank.key):
        raise BadInput(f"{what_is} of an earlier stop of {printable(rank.address)}", remedy)
    return rank, found[2]


def count_of(value: object) -> int:
    """Return the positive number that an IDE has sent, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class Holder(NamedTuple):
    """Container of variables: a scope of a frame, or a value by its handle in the rank."""

    frame: str
    scope: Scope = Scope.LOCALS
    handle: int = 0


class Values:
    """The values that one window has requested. They are invalid after their rank has moved."""

    def __init__(self, window: Window, threads: Threads, frames: Frames, keyboard: Keyboard) -> None:
        self._window = window
        self._threads = threads
        self._frames = frames
        self._keyboard = keyboard
        self._numbers: Handles[Holder] = Handles()

    async def scopes(self, arguments: Message) -> Message:
        """Answer ``scopes``."""
        at = self._frames.frame(arguments.get("frameId"))
        return {
            "scopes": [
                {
                    "name": name,
                    "presentationHint": hint,
                    "variablesReference": self._number(at.rank, Holder(at.name, scope)),
                    "expensive": scope is Scope.GLOBALS,
                }
                for name, hint, scope in (("Locals", "locals", Scope.LOCALS), ("Globals", "globals", Scope.GLOBALS))
            ]
        }

    async def variables(self, arguments: Message) -> Message:
        """Answer ``variables``: one page if the IDE requests a page, otherwise all up to MAX_ROWS."""
        rank, holder = self._holder(arguments.get("variablesReference"))
        parts = _FILTERS.get(str(arguments.get("filter")), Parts.ALL)
        start, count = count_of(arguments.get("start")), count_of(arguments.get("count")) or MAX_ROWS
        rows = await self._parts(rank, holder, parts, start, min(count, MAX_ROWS))
        self._holder(arguments.get("variablesReference"))  # check again: the rank may have moved
        return {"variables": [self._variable(rank, holder.frame, row) for row in rows]}

    async def set_variable(self, arguments: Message) -> Message:
        """Carry out ``setVariable``."""
        rank, holder = self._holder(arguments.get("variablesReference"))
        self._keyboard.require_free(rank)
        name, value = str(arguments.get("name", "")), str(arguments.get("value", ""))
        values, at = self._window.values(rank), At(holder.frame)
        row = await values.set(name, value, holder.handle, holder.scope.value, at)
        return self._result(rank, holder.frame, row, "value")

    async def evaluate(self, arguments: Message, *, runs: bool) -> Message:
        """Answer ``evaluate`` for one frame; with ``runs``, also run statements."""
        at = self._frames.frame(arguments.get("frameId"))
        text = str(arguments.get("expression", ""))
        values = self._window.values(at.rank)
        found = await (values.run if runs else values.inspect)(text, At(at.name))
        if found is None:
            return {"result": "", "variablesReference": 0}
        return self._result(at.rank, at.name, found, "result")

    async def exception_info(self, arguments: Message) -> Message:
        """Answer ``exceptionInfo``."""
        rank = self._threads.stopped_rank(arguments.get("threadId"))
        seen = await self._window.values(rank).exception()
        if seen is None:
            raise BadInput(f"{printable(rank.address)} is not handling an exception", "look at its variables")
        name = printable(seen.type)
        return {
            "exceptionId": name,
            "description": seen.text,
            "breakMode": "unhandled" if seen.is_uncaught else "always",
            "details": {
                "message": seen.text,
                "typeName": name.rpartition(".")[2],
                "fullTypeName": name,
                "stackTrace": seen.traceback,
            },
        }

    # ----------------------------------------------------------------------------------------------------------- inner

    async def _parts(self, rank: RankInfo, holder: Holder, parts: Parts, start: int, count: int) -> list[Variable]:
        rows: list[Variable] = []
        values, at = self._window.values(rank), At(holder.frame)
        while len(rows) < count:
            wanted = min(count - len(rows), MAX_VARIABLES)
            first = start + len(rows)
            page = await values.variables(holder.handle, holder.scope.value, first, wanted, at, parts=parts)
            rows += page[:wanted]
            if len(page) < wanted:
                break
        return rows

    def _holder(self, reference: object) -> tuple[RankInfo, Holder]:
        remedy = "choose a current frame"
        return _present(self._threads, self._numbers, reference, "these values are", remedy)

    def _number(self, rank: RankInfo, holder: Holder) -> int:
        return self._numbers.number(rank.key, self._threads.table.version(rank.key), holder)

    def _variable(self, rank: RankInfo, frame: str, row: Variable) -> Message:
        hint: Message = {}
        if row.is_fixed:
            hint["attributes"] = ["readOnly"]
        return {
            "name": printable(row.name),
            **self._result(rank, frame, row, "value"),
            **({"evaluateName": row.expression} if row.expression else {}),
            **({"presentationHint": hint} if hint else {}),
        }

    def _result(self, rank: RankInfo, frame: str, row: Variable, field: str) -> Message:
        """Return a value with the fields that an IDE needs to request its children."""
        reference = 0
        if row.handle:
            reference = self._number(rank, Holder(frame, handle=row.handle))
        return {
            field: row.text,
            "type": printable(row.type),
            "variablesReference": reference,
            **({"namedVariables": row.named, "indexedVariables": row.indexed} if row.handle else {}),
        }
