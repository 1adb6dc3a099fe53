"""What a frame is calling: the expression of the function or of the ``with`` block, from the code alone.

The instructions before the one that runs are read backward until all operands of the call are accounted for, so no
source is needed, and none is read. An expression of names, attributes and items with a constant or a variable as key is
resolved to its value, and so are sums and products of such; of any other one, as of a call's result, nothing is known.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from opcode import opname
from types import BuiltinFunctionType, FrameType, MappingProxyType
from typing import Any, NamedTuple

from dbg_agent.evidence.instructions import (
    NO_LOADS,
    WITH,
    Instruction,
    entered,
    index_of,
    instructions_of,
    name_in,
    operands_of,
    operands_start,
)
from dbg_agent.evidence.variables import UNKNOWN, attribute, item, local, variable

_LOCALS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_NAME"})
_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_CALLS = ("CALL", "PRECALL", *WITH, "IMPORT", "WITH_EXCEPT", "FOR_ITER", "BINARY", "STORE_ATTR", "STORE_SUBSCR")
"""Beginnings of instructions in which C code may run for long."""

_MAX_WHOLE = 1 << 63
"""Size of a whole number with which nothing is worked out: any number of a rank, a tag or a count is smaller."""

_MAX_TEXT = 200
"""Characters of an expression."""


class Expression(NamedTuple):
    """An expression, as text and value; of an attribute also its object's text and value, and its name."""

    text: str
    value: Any
    owner_text: str = ""
    owner: Any = UNKNOWN
    name: str = ""


UNRESOLVED = Expression("", UNKNOWN)
"""An expression that is not a plain one."""


class CallSite(NamedTuple):
    """The call that a frame is in, with the values of its arguments, each UNKNOWN where it can't be read.

    ``is_with`` tells that it is the entry of a ``with`` block, ``is_whole`` that these are all arguments.
    """

    called: Expression
    is_with: bool = False
    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = MappingProxyType({})
    is_whole: bool = True

    def argument(self, position: int, name: str, default: Any = UNKNOWN) -> Any:
        """Return an argument by its name or its place, ``default`` if it was not given, UNKNOWN if it can't be read."""
        if name in self.named:
            return self.named[name]
        if position < len(self.positional):
            return self.positional[position]
        return default if self.is_whole else UNKNOWN


def is_calling(frame: FrameType) -> bool:
    """Tell whether C code may run in a frame's current instruction."""
    raw = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(raw) and opname[raw[frame.f_lasti]].startswith(_CALLS)


def call_site(frame: FrameType, *, reads: bool = True) -> CallSite | None:
    """Return what a frame is calling, with an empty text if that is no plain expression; None if it is at no call.

    A function written in C has no frame, so its name and arguments are in the caller's instructions alone. Without
    ``reads`` no local variable is read, so that values are UNKNOWN.
    """
    instructions = instructions_of(frame.f_code)
    index = index_of(instructions, frame.f_lasti)
    if index is None:
        return None
    if instructions[index].name == "PRECALL":
        # Python 3.11 runs calls of known C functions in this instruction.
        index += 1
    now = instructions[index]
    if now.name in WITH:
        return CallSite(_whole(frame, instructions, index, reads) or UNRESOLVED, is_with=True)
    if not now.name.startswith("CALL") or now.name.startswith("CALL_INTRINSIC"):
        return None
    operands = operands_of(frame.f_code, instructions, index)
    if operands is None:
        return CallSite(_method(frame, instructions[:index]), positional=(UNKNOWN,), is_whole=False)
    positional = tuple(worked_out(frame, one, reads) for one in operands.positional)
    named = {name: worked_out(frame, one, reads) for name, one in operands.named.items()}
    called = _plain(frame, operands.called, reads)
    expression = (
        _bound(called) if called else _method(frame, [one for one in operands.called if one.name not in NO_LOADS][-1:])
    )
    return CallSite(expression, False, positional, named, operands.is_whole)


Step = Callable[[Instruction, list[Any]], bool]
"""Does to a stack of values what an instruction does, if it is one that the caller knows."""


def worked_out(
    frame: FrameType, instructions: Sequence[Instruction], reads: bool, *, also: Step = lambda _one, _stack: False
) -> Any:
    """Return the value that these instructions make of names, attributes, items and whole numbers, as a stack machine.

    No code of the program runs. UNKNOWN if one of them is none of these, and none that ``also`` knows.
    """
    stack: list[Any] = []
    try:
        for one in instructions:
            if not also(one, stack):
                _do(frame, one, stack, reads)
        return stack.pop()
    except (IndexError, TypeError, ValueError, ArithmeticError):
        return UNKNOWN


def _do(frame: FrameType, one: Instruction, stack: list[Any], reads: bool) -> None:
    if one.name in NO_LOADS:
        return
    if one.name in _ATTRIBUTES:
        owner = stack.pop()
        stack.append(attribute(owner, name_in(frame.f_code, one)) if owner is not UNKNOWN else UNKNOWN)
    elif one.name == "BINARY_SUBSCR":
        key = stack.pop()
        stack.append(item(stack.pop(), key))
    elif one.name == "UNARY_NEGATIVE":
        stack.append(0 - _whole_number(stack.pop()))
    elif (operation := _OPERATIONS.get(one.argument if one.name == "BINARY_OP" else one.name)) is not None:
        last = _whole_number(stack.pop())
        stack.append(_whole_number(operation(_whole_number(stack.pop()), last)))
    else:
        found = loaded(frame, one, reads)
        if found is None:
            raise ValueError(one.name)
        stack.append(found.value)


_OPERATIONS: Mapping[object, Callable[[int, int], int]] = {
    **dict.fromkeys((0, "BINARY_ADD"), operator.add),
    **dict.fromkeys((2, "BINARY_FLOOR_DIVIDE"), operator.floordiv),
    **dict.fromkeys((5, "BINARY_MULTIPLY"), operator.mul),
    **dict.fromkeys((6, "BINARY_MODULO"), operator.mod),
    **dict.fromkeys((10, "BINARY_SUBTRACT"), operator.sub),
}
"""Operations with two numbers, by the argument of BINARY_OP, and by their own name before Python 3.11."""


def _whole_number(value: Any) -> int:
    if type(value) is not int or abs(value) >= _MAX_WHOLE:
        raise ValueError
    return value


def _method(frame: FrameType, instructions: Sequence[Instruction]) -> Expression:
    """Return the name of the last attribute that these instructions load, as that of an unknown object's method."""
    last = next((one for one in reversed(instructions) if one.name in _ATTRIBUTES), None)
    return UNRESOLVED._replace(name=name_in(frame.f_code, last)) if last is not None else UNRESOLVED


def _bound(called: Expression) -> Expression:
    """Return an expression for a method of C with its object, whatever it is called by."""
    if type(called.value) is not BuiltinFunctionType:
        return called
    owner = called.value.__self__
    return called._replace(owner_text=called.owner_text or called.text, owner=owner, name=called.value.__name__)


def open_blocks(frame: FrameType, instructions: Sequence[Instruction]) -> list[Expression]:
    """Return the expressions of the ``with`` blocks in whose body the frame is, the innermost first."""
    found = [_whole(frame, instructions, index) for index in entered(frame.f_code, instructions, frame.f_lasti)]
    return [one for one in found if one is not None]


def methods_before(
    frame: FrameType, instructions: Sequence[Instruction], names: Sequence[str]
) -> list[tuple[str, Expression]]:
    """Return calls of methods with these names before the one that runs: the method's name and its object, in order."""
    found = []
    for index, one in enumerate(instructions):
        if one.at >= frame.f_lasti:
            break
        if one.name in _ATTRIBUTES and name_in(frame.f_code, one) in names:
            owner = _whole(frame, instructions, index)
            if owner is not None:
                found.append((name_in(frame.f_code, one), owner))
    # The method that runs has not returned yet.
    return found[:-1] if found and _is_last_method(frame, instructions, names) else found


def _is_last_method(frame: FrameType, instructions: Sequence[Instruction], names: Sequence[str]) -> bool:
    site = call_site(frame, reads=False)
    return site is not None and site.called.name in names


def _whole(frame: FrameType, instructions: Sequence[Instruction], end: int, reads: bool = True) -> Expression | None:
    """Return the expression whose value is on top of the stack before an instruction; None if it is not plain."""
    start = operands_start(instructions, end, 1)
    return _plain(frame, instructions[start:end], reads) if start is not None else None


def _plain(frame: FrameType, instructions: Sequence[Instruction], reads: bool) -> Expression | None:
    """Return the expression that these instructions make; None if it is not plain."""
    read = _expression(frame, instructions, reads)
    return read[0] if read is not None and all(one.name in NO_LOADS for one in instructions[read[1] :]) else None


def _expression(frame: FrameType, instructions: Sequence[Instruction], reads: bool) -> tuple[Expression, int] | None:
    """Return the expression at the beginning of these instructions, and how many of them it takes."""
    at = 0
    while at < len(instructions) and instructions[at].name in NO_LOADS:
        at += 1
    found = loaded(frame, instructions[at], reads) if at < len(instructions) else None
    if found is None:
        return None
    at += 1
    while at < len(instructions) and len(found.text) < _MAX_TEXT:
        one = instructions[at]
        if one.name in _ATTRIBUTES:
            name = name_in(frame.f_code, one)
            value = attribute(found.value, name) if found.value is not UNKNOWN else UNKNOWN
            found = Expression(f"{found.text}.{name}", value, found.text, found.value, name)
            at += 1
        elif at + 1 < len(instructions) and instructions[at + 1].name == "BINARY_SUBSCR":
            key = loaded(frame, one, reads)
            if key is None:
                break
            found = Expression(f"{found.text}[{key.text}]", item(found.value, key.value))
            at += 2
        else:
            break
    return found, at


def loaded(frame: FrameType, one: Instruction, reads: bool) -> Expression | None:
    """Return what an instruction loads that loads a constant or a variable; None for another one."""
    if one.name == "LOAD_CONST":
        value = frame.f_code.co_consts[one.argument]
        return Expression(repr(value)[:40] if type(value) in (int, str, float, bool) else "…", value)
    if one.name not in _LOCALS and one.name not in _GLOBALS:
        return None
    name = name_in(frame.f_code, one)
    value = local(frame, name) if one.name in _LOCALS and reads else UNKNOWN
    if value is UNKNOWN and one.name in _GLOBALS:
        value = variable(frame, name)
    return Expression(name, value)
