"""Values of one stopped rank: variables and their parts, expressions, and the exception."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import msgspec

from dbg_client.api.answers import safe_text
from dbg_client.api.inspection import RankError, ask_one, given
from dbg_client.core.asking import Asker
from dbg_client.core.switchboard import Switchboard
from dbg_wire.errors import BadInput, printable
from dbg_wire.messages import Action, Kind, RankAnswer
from dbg_wire.records import inspection
from dbg_wire.records.inspection import (
    MAX_VARIABLE_TEXT,
    MAX_VARIABLES,
    Inspected,
    Inspection,
    InspectionKind,
    Parts,
    Scope,
    inspected_in,
)
from dbg_wire.records.ranks import RankInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A value of a stopped rank.

    ``text`` is the value as the terminal shows it; in a list of variables a long text is truncated. ``named`` and
    ``indexed`` are the numbers of its named and its indexed parts; ``stop.variables(of=variable)`` returns the parts
    until the rank resumes. ``expression`` evaluates to the value at the frame; it is empty if no such expression
    exists. ``is_fixed`` is True if nothing can be assigned.
    """

    name: str
    text: str
    type: str
    expression: str
    named: int
    indexed: int
    is_fixed: bool
    handle: int
    """Number that identifies the value in the rank; 0 for a value without parts."""

    def __str__(self) -> str:
        return f"{self.name} = {self.text}" if self.name else self.text


class Variables(tuple[Variable, ...]):
    """Variables in their order; ``str()`` has a line for each, as a Python prompt and a notebook show them."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(f"{one.name}: {one.text}{_parts(one)}" for one in self)

    __repr__ = __str__


def _parts(one: Variable) -> str:
    count = one.named + one.indexed
    if not count:
        return ""
    return f"  ({count} part{'s' if count > 1 else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionInfo:
    """An exception in a stopped rank: the full name of its class, its text, and its traceback as Python prints it.

    ``is_uncaught`` is True if the rank has crashed with this exception; otherwise the program is handling it.
    """

    type: str
    text: str
    traceback: str
    is_uncaught: bool

    def __str__(self) -> str:
        return self.traceback or f"{self.type}: {self.text}"


RowT = TypeVar("RowT", Variable, ExceptionInfo)


def _printable(kind: type[RowT], record: inspection.Variable | inspection.ExceptionSeen) -> RowT:
    """Convert a rank's record to ``kind``, and make its texts safe to print."""
    fields: dict[str, Any] = msgspec.structs.asdict(record)
    fields |= {name: safe_text(value) for name, value in fields.items() if isinstance(value, str)}
    return kind(**fields)


class At(NamedTuple):
    """Frame of a question, and its timeout in seconds. An empty ``frame`` means the selected frame."""

    frame: str = ""
    timeout: float | None = None


HERE = At()

Of = Variable | str | int | None
"""Value whose parts are requested: a variable of an answer, its handle, or an expression.

None requests the variables of a frame.
"""


class Values:
    """Values of one stopped rank. ``ask`` sends a question to the rank, and returns the answer or raises RankError."""

    def __init__(self, ask: Callable[[Inspection, At], Awaitable[RankAnswer]], address: str) -> None:
        self._ask = ask
        self._address = address

    async def inspect(self, expression: str, at: At = HERE) -> Variable:
        """Return the value of an expression. Raises RankError."""
        answer = await self._inspect(at, sight=InspectionKind.VALUE, text=expression)
        # The rank returns the value without a name.
        return replace(self._one(answer), name=expression)

    async def run(self, text: str, at: At = HERE) -> Variable | None:
        """Return the value of an expression, or run a statement, which has no value. Raises RankError."""
        answer = await self._inspect(at, sight=InspectionKind.VALUE, text=text, runs=True)
        return _printable(Variable, answer.variables[0]) if answer.variables else None

    async def variables(
        self, of: Of, scope: str, start: int, count: int, at: At = HERE, *, parts: Parts = Parts.ALL
    ) -> Variables:
        """Return variables of a scope, or parts of a value, at most MAX_VARIABLES. Raises RankError."""
        handle, count = await self._handle(of, at), min(count, MAX_VARIABLES)
        answer = await self._inspect(
            at, sight=InspectionKind.PARTS, scope=_scope(scope), handle=handle, start=start, count=count, parts=parts
        )
        return Variables(_printable(Variable, one) for one in answer.variables)

    async def locals(self, at: At = HERE) -> dict[str, str]:
        """Return the text of each local variable except dunder names. Raises RankError."""
        variables = await self.variables(None, Scope.LOCALS.value, 0, 0, at)
        found = [one for one in variables if one.name.isidentifier() and one.name[:2] != "__"]

        async def whole(one: Variable) -> str:
            if len(one.text) < MAX_VARIABLE_TEXT:
                return one.text
            return (await self.inspect(one.expression or one.name, at)).text

        texts = await asyncio.gather(*map(whole, found))
        return {one.name: text for one, text in zip(found, texts, strict=True)}

    async def set(self, name: str, expression: str, of: Of, scope: str, at: At = HERE) -> Variable:
        """Assign a value, and return the variable afterwards. Raises RankError."""
        handle = await self._handle(of, at)
        answer = await self._inspect(
            at, sight=InspectionKind.ASSIGN, scope=_scope(scope), handle=handle, name=name, text=expression
        )
        return self._one(answer)

    async def exception(self, at: At = HERE) -> ExceptionInfo | None:
        """Return the rank's exception, or None without an exception. Raises RankError."""
        answer = (await self._inspect(at, sight=InspectionKind.EXCEPTION)).exception
        return _printable(ExceptionInfo, answer) if answer is not None else None

    async def _inspect(self, at: At, **question: Any) -> Inspected:
        """Ask the rank and return its answer. Raises BadInput for an invalid question."""
        return inspected_in((await self._ask(given(Inspection, **question), at)).rows)

    def _one(self, answer: Inspected) -> Variable:
        if not answer.variables:
            raise RankError(self._address, "the answer has no value", Kind.ERROR.value)
        return _printable(Variable, answer.variables[0])

    async def _handle(self, of: Of, at: At) -> int:
        if of is None or isinstance(of, int):
            return of or 0
        value = await self.inspect(of, at) if isinstance(of, str) else of
        if not value.handle:
            raise BadInput(f"{printable(value.name) or 'this value'} has no parts", "read its text")
        return value.handle


def values_of(switchboard: Switchboard, rank: RankInfo) -> Values:
    """Return the values of a rank. The caller does not need the rank's keyboard, so another terminal may have it."""

    def ask(question: Inspection, at: At) -> Awaitable[RankAnswer]:
        asker = Asker(switchboard, at.timeout)
        return ask_one(asker, Action.INSPECT, rank, inquiry=question, frame=at.frame)

    return Values(ask, rank.address)


def _scope(name: str) -> Scope:
    try:
        return Scope(name)
    except ValueError:
        raise BadInput(f"there is no scope {printable(str(name))!r}", "use locals or globals") from None
