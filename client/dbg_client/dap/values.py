"""Values of a stopped rank as an IDE shows them: scopes, variables in pages, assignments, completions, exceptions."""

from __future__ import annotations

from typing import NamedTuple

from dbg_client.api.values import At, Variable
from dbg_client.dap.frames import Frames, Handles, count_of
from dbg_client.dap.keyboard import Keyboard
from dbg_client.dap.listing import Threads
from dbg_client.dap.messages import Message
from dbg_client.dap.window import Window
from dbg_wire.errors import BadInput, printable
from dbg_wire.records.inspection import MAX_VARIABLES, Parts, Scope
from dbg_wire.records.ranks import RankInfo

MAX_ROWS = 2000
"""Variables of one answer to an IDE that asks for all at once."""

_FILTERS = {"named": Parts.NAMED, "indexed": Parts.INDEXED}


class Holder(NamedTuple):
    """What has variables: a scope of a frame, a value by its handle in the rank, or a value that is yet to be read."""

    frame: str
    scope: Scope = Scope.LOCALS
    handle: int = 0
    expression: str = ""


class Values:
    """The values that one window has asked for. What it knows of a rank's stop is void when the rank moves."""

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
        """Answer ``variables``: a page if the IDE asks for one, and otherwise all up to MAX_ROWS."""
        rank, holder = self._holder(arguments.get("variablesReference"))
        if holder.expression:
            rows = [await self._window.values(rank).inspect(holder.expression, At(holder.frame))]
        else:
            parts = _FILTERS.get(str(arguments.get("filter")), Parts.ALL)
            begin, count = count_of(arguments.get("start")), count_of(arguments.get("count")) or MAX_ROWS
            rows = await self._parts(rank, holder, parts, begin, min(count, MAX_ROWS))
        self._require_same(rank, arguments.get("variablesReference"))
        return {"variables": [self._variable(rank, holder.frame, row) for row in rows]}

    async def set_variable(self, arguments: Message) -> Message:
        """Carry out ``setVariable``."""
        rank, holder = self._holder(arguments.get("variablesReference"))
        await self._keyboard.hold_if_open(rank)
        name, value = str(arguments.get("name", "")), str(arguments.get("value", ""))
        values, at = self._window.values(rank), At(holder.frame)
        row = await values.set(name, value, holder.handle, holder.scope.value, at)
        return self._result(rank, holder.frame, row, "value")

    async def evaluate(self, arguments: Message, *, runs: bool) -> Message:
        """Answer ``evaluate`` for one frame; with ``runs`` statements are run."""
        at = self._frames.frame(arguments.get("frameId"))
        text = str(arguments.get("expression", ""))
        values = self._window.values(at.rank)
        found = await (values.run if runs else values.inspect)(text, At(at.name))
        if found is None:
            return {"result": "", "variablesReference": 0}
        return self._result(at.rank, at.name, found, "result")

    async def completions(self, text: str, begin: int, frame: object) -> list[Message]:
        """Return what may follow in ``text`` with the cursor behind ``begin`` characters."""
        at = self._frames.frame(frame)
        found = await self._window.values(at.rank).completions(text, begin, At(at.name))
        return [{"label": printable(one.text), "start": one.begin, "length": one.length} for one in found]

    async def exception_info(self, arguments: Message) -> Message:
        """Answer ``exceptionInfo``."""
        rank = self._threads.standing(arguments.get("threadId"))
        seen = await self._window.values(rank).exception()
        if seen is None:
            raise BadInput(f"{printable(rank.address)} handles no exception", "look at its variables")
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

    async def _parts(self, rank: RankInfo, holder: Holder, parts: Parts, begin: int, count: int) -> list[Variable]:
        rows: list[Variable] = []
        values, at = self._window.values(rank), At(holder.frame)
        while len(rows) < count:
            wanted = min(count - len(rows), MAX_VARIABLES)
            first = begin + len(rows)
            page = await values.variables(holder.handle, holder.scope.value, first, wanted, at, parts=parts)
            rows += page[:wanted]
            if len(page) < wanted:
                break
        return rows

    def _holder(self, reference: object) -> tuple[RankInfo, Holder]:
        found = self._numbers.find(reference)
        rank = self._threads.of_key(found[0]) if found is not None else None
        if found is None or rank is None:
            raise BadInput("these values are of an earlier stop", "choose a frame of the present one")
        self._require_same(rank, reference)
        return rank, found[2]

    def _require_same(self, rank: RankInfo, reference: object) -> None:
        """Raise BadInput if the rank has moved since this number was given out."""
        found, table = self._numbers.find(reference), self._threads.table
        if found is None or table.version(rank.key) != found[1] or not table.stands(rank.key):
            raise BadInput(
                f"these values are of an earlier stop of {printable(rank.address)}", "choose a frame of the present one"
            )

    def _number(self, rank: RankInfo, holder: Holder) -> int:
        return self._numbers.number(rank.key, self._threads.table.version(rank.key) or 0, holder)

    def _variable(self, rank: RankInfo, frame: str, row: Variable) -> Message:
        hint: Message = {}
        if row.is_fixed:
            hint["attributes"] = ["readOnly"]
        if row.is_lazy:
            hint["lazy"] = True
        return {
            "name": printable(row.name),
            **self._result(rank, frame, row, "value"),
            **({"evaluateName": row.expression} if row.expression else {}),
            **({"presentationHint": hint} if hint else {}),
        }

    def _result(self, rank: RankInfo, frame: str, row: Variable, field: str) -> Message:
        """Return a value with what an IDE needs to ask for its parts."""
        reference = 0
        if row.is_lazy and row.expression:
            reference = self._number(rank, Holder(frame, expression=row.expression))
        elif row.handle:
            reference = self._number(rank, Holder(frame, handle=row.handle))
        return {
            field: row.text,
            "type": printable(row.type),
            "variablesReference": reference,
            **(
                {"namedVariables": row.named, "indexedVariables": row.indexed} if row.handle and not row.is_lazy else {}
            ),
        }
