"""The instructions of a function, and which of them have made the operands of another one."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from opcode import EXTENDED_ARG, HAVE_ARGUMENT, opmap, opname, stack_effect
from types import CodeType
from typing import NamedTuple

MAX_CODE = 20_000
"""Bytes of a function's code that are read: 10,000 instructions, which take some 5 ms."""

NO_LOADS = frozenset({"PUSH_NULL", "NOP", "PRECALL", "KW_NAMES"})
"""Instructions between the operands of a call that are none."""

_HAS_ONE_ARRAY = sys.version_info >= (3, 11)
"""Whether an index counts locals, cells and closed-over variables together."""

_SHIFTS_GLOBAL = sys.version_info >= (3, 11)
_SHIFTS_ATTRIBUTE = sys.version_info >= (3, 12)
"""Whether the lowest bit of an argument is no part of the name's index."""

_HAS_JUMP_CACHE = sys.version_info >= (3, 13)
"""Whether a jump back has a cache behind it, which its argument counts as well."""

_TWO_LOADS = frozenset({"LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"})
"""Instructions of Python 3.13 that stand for two."""


class Instruction(NamedTuple):
    """One instruction; ``at`` is its offset as frames tell it."""

    at: int
    name: str
    argument: int

    @property
    def effect(self) -> int:
        """Return by how many values it makes the stack longer, if it does not jump."""
        number = opmap[self.name]
        return stack_effect(number, self.argument if number >= HAVE_ARGUMENT else None, jump=False)


@lru_cache(256)
def instructions_of(code: CodeType) -> tuple[Instruction, ...]:
    """Return the instructions of a function, without caches; none for a very long one."""
    raw = code.co_code
    if len(raw) > MAX_CODE:
        return ()
    found: list[Instruction] = []
    extended = 0
    for at in range(0, len(raw), 2):
        number, argument = raw[at], raw[at + 1] | extended
        name = opname[number]
        extended = argument << 8 if number == EXTENDED_ARG else 0
        if name in _TWO_LOADS:
            middle = name.index("_FAST_") + 5
            found += (
                Instruction(at, name[:middle], argument >> 4),
                Instruction(at, name[middle + 1 :], argument & 15),
            )
        elif name not in ("CACHE", "EXTENDED_ARG"):
            found.append(Instruction(at, name, argument))
    return tuple(found)


def jumps_back_to(one: Instruction) -> int:
    """Return the offset to which an instruction jumps back, at the end of a loop; beyond the code if it does not."""
    if "JUMP_BACKWARD" in one.name:
        return one.at + (4 if _HAS_JUMP_CACHE and one.name == "JUMP_BACKWARD" else 2) - 2 * one.argument
    if not _HAS_ONE_ARRAY and one.name.startswith(("JUMP_ABSOLUTE", "POP_JUMP_IF")) and 2 * one.argument < one.at:
        return 2 * one.argument
    return MAX_CODE


def index_of(instructions: Sequence[Instruction], at: int) -> int | None:
    """Return the index of the instruction at an offset, or in whose caches it is; None if there is none."""
    # A frame that has called a function of Python is at the end of the call's caches.
    index = bisect_right(instructions, (at + 1,)) - 1
    return index if index >= 0 else None


def operands_start(instructions: Sequence[Instruction], end: int, needed: int) -> int | None:
    """Return where the code begins that has put so many values onto the stack, before the instruction ``end``.

    Return None where the code before comes by a jump, as within `f(a if b else c)`.
    """
    there = 0
    for index in range(end - 1, -1, -1):
        one = instructions[index]
        if "JUMP" in one.name or one.name.startswith(("RETURN", "RAISE", "RERAISE", "SEND", "YIELD", "FOR_ITER")):
            return None
        there += one.effect
        if there == needed:
            return index
    return None


def name_in(code: CodeType, one: Instruction) -> str:
    """Return the name of the variable or attribute that an instruction loads."""
    argument = one.argument
    if one.name == "LOAD_GLOBAL":
        return code.co_names[argument >> 1 if _SHIFTS_GLOBAL else argument]
    if one.name == "LOAD_ATTR":
        return code.co_names[argument >> 1 if _SHIFTS_ATTRIBUTE else argument]
    if one.name in ("LOAD_METHOD", "LOAD_NAME"):
        return code.co_names[argument]
    if _HAS_ONE_ARRAY:
        name: str = code._varname_from_oparg(argument)  # type: ignore[attr-defined] # from Python 3.11 on
        return name
    return code.co_varnames[argument] if one.name == "LOAD_FAST" else (code.co_cellvars + code.co_freevars)[argument]
