"""What can be asked of the values of one stopped rank, whatever the way to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple

from dbg_client.api.errors import RankError
from dbg_client.api.given import given
from dbg_client.api.variables import ExceptionInfo, Variable, Variables, exception_of, variable_of
from dbg_wire.errors import BadInput, printable
from dbg_wire.messages import Kind, RankAnswer
from dbg_wire.records.inspection import (
    MAX_VARIABLE_TEXT,
    MAX_VARIABLES,
    Inspected,
    Inspection,
    Scope,
    Sight,
    inspected_in,
)

AT_ONCE = 8
"""Questions of one stop that are open at the same time."""


class At(NamedTuple):
    """The frame at which a question is answered, empty for that at which the rank is looked at, and the seconds."""

    frame: str = ""
    timeout: float | None = None


HERE = At()

Of = Variable | str | None
"""A value with parts: a variable of an answer, an expression, or None for the variables of a frame."""


class Values:
    """The values of one stopped rank. ``ask`` puts a question to it and returns its answer."""

    def __init__(self, ask: Callable[[Inspection, At], Awaitable[RankAnswer]], address: str) -> None:
        self._ask = ask
        self._address = address

    async def inspect(self, expression: str, at: At = HERE) -> Variable:
        """Return the value of an expression. Raises RankError."""
        question = given(Inspection, sight=Sight.VALUE, text=expression)
        # The rank calls it nothing.
        return replace(self._one(await self._told(question, at)), name=expression)

    async def variables(self, of: Of, scope: str, begin: int, count: int, at: At = HERE) -> Variables:
        """Return variables of a scope, or parts of a value. Raises RankError."""
        question = given(
            Inspection,
            sight=Sight.PARTS,
            scope=_scope(scope),
            handle=await self._handle(of, at),
            begin=begin,
            count=min(count, MAX_VARIABLES),
        )
        return Variables(map(variable_of, (await self._told(question, at)).variables))

    async def locals(self, at: At = HERE) -> dict[str, str]:
        """Return the text of each local variable but those with dunder names. Raises RankError."""
        variables = await self.variables(None, Scope.LOCALS.value, 0, 0, at)
        found = [one for one in variables if one.name.isidentifier() and one.name[:2] != "__"]
        free = asyncio.Semaphore(AT_ONCE)

        async def whole(one: Variable) -> str:
            if len(one.text) < MAX_VARIABLE_TEXT:
                return one.text
            async with free:
                return (await self.inspect(one.expression or one.name, at)).text

        texts = await asyncio.gather(*map(whole, found))
        return {one.name: text for one, text in zip(found, texts, strict=True)}

    async def set(self, name: str, expression: str, of: Of, scope: str, at: At = HERE) -> Variable:
        """Assign, and return the variable as it is then. Raises RankError."""
        handle = await self._handle(of, at)
        question = given(Inspection, sight=Sight.ASSIGN, scope=_scope(scope), handle=handle, name=name, text=expression)
        return self._one(await self._told(question, at))

    async def exception(self, at: At = HERE) -> ExceptionInfo | None:
        """Return the exception of the rank, None without one. Raises RankError."""
        told = (await self._told(Inspection(sight=Sight.EXCEPTION), at)).exception
        return exception_of(told) if told is not None else None

    async def _told(self, question: Inspection, at: At) -> Inspected:
        answer = await self._ask(question, at)
        told = inspected_in(answer.rows)
        if answer.kind is not Kind.VALUE:
            raise RankError(self._address, answer.text, answer.kind.value)
        return told

    def _one(self, told: Inspected) -> Variable:
        if not told.variables:
            raise RankError(self._address, "it has answered without a value", Kind.ERROR.value)
        return variable_of(told.variables[0])

    async def _handle(self, of: Of, at: At) -> int:
        if of is None:
            return 0
        value = await self.inspect(of, at) if isinstance(of, str) else of
        if not value.handle:
            raise BadInput(f"{printable(value.name) or 'this value'} has no parts", "look at its text")
        return value.handle


def _scope(name: str) -> Scope:
    try:
        return Scope(name)
    except ValueError:
        raise BadInput(f"there is no scope {printable(str(name))!r}", "give locals or globals") from None
