"""Values of a stopped rank as objects: variables in levels, and the exception."""

from __future__ import annotations

from dataclasses import dataclass

from dbg_client.api.answers import safe_text, table_html
from dbg_wire.records import inspection


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A value of a stopped rank.

    ``text`` is what the terminal shows of it, the beginning of a long one in a list. ``named`` and ``indexed`` count
    the parts that it has, which ``stop.variables(of=variable)`` returns until the rank goes on. ``expression`` yields
    the value at the frame, empty if none does. ``is_fixed`` tells that nothing can be assigned, ``is_lazy`` that the
    value was not looked at, since that runs code of the program.
    """

    name: str
    text: str
    type: str
    expression: str
    named: int
    indexed: int
    is_fixed: bool
    is_lazy: bool
    handle: int
    """The number by which the rank knows the value; 0 for one without parts."""

    def __str__(self) -> str:
        return f"{self.name} = {self.text}" if self.name else self.text


class Variables(tuple[Variable, ...]):
    """Variables in their order; ``str()`` has a line for each, and a notebook shows a table."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(f"{one.name}: {_shown(one)}{_parts(one)}" for one in self)

    def _repr_html_(self) -> str:
        """Return the variables as a table, for a notebook; all that comes from ranks is escaped."""
        rows = [(one.name, one.type, _shown(one), _parts(one).strip(" ()")) for one in self]
        return table_html(f"{len(self)} variables", ("name", "type", "value", "parts"), rows)


def _shown(one: Variable) -> str:
    if not one.is_lazy:
        return one.text
    return "not looked at" + (f"; evaluate {one.expression}" if one.expression else "")


def _parts(one: Variable) -> str:
    count = one.named + one.indexed
    if one.is_lazy or not count:
        return ""
    return f"  ({count} part{'s' if count > 1 else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionInfo:
    """An exception in a stopped rank: the full name of its class, its text, and its traceback as Python prints it.

    ``is_uncaught`` tells that the rank is kept for it; otherwise the program handles it.
    """

    type: str
    text: str
    traceback: str
    is_uncaught: bool

    def __str__(self) -> str:
        return self.traceback or f"{self.type}: {self.text}"


def variable_of(told: inspection.Variable) -> Variable:
    """Return a variable with texts that a program may print."""
    return Variable(
        name=safe_text(told.name),
        text=safe_text(told.text),
        type=safe_text(told.type),
        expression=safe_text(told.expression),
        named=told.named,
        indexed=told.indexed,
        is_fixed=told.is_fixed,
        is_lazy=told.is_lazy,
        handle=told.handle,
    )


def exception_of(told: inspection.ExceptionSeen) -> ExceptionInfo:
    """Return an exception with texts that a program may print."""
    return ExceptionInfo(
        type=safe_text(told.type),
        text=safe_text(told.text),
        traceback=safe_text(told.traceback),
        is_uncaught=told.is_uncaught,
    )
