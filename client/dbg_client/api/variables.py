"""Values of a stopped rank as objects: variables in levels, and the exception."""

from __future__ import annotations

from dataclasses import dataclass

from dbg_wire import inspection

from .answers import safe_text


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
