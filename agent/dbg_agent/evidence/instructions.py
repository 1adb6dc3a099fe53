"""The instructions of a function, and which of them have made the operands of another one."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
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
"""Whether a jump back, or one that a value decides, has a cache behind it, which its argument counts as well."""

_HAS_LOOP_CACHE = sys.version_info >= (3, 12)
"""Whether the head of a `for` loop has one."""

_TWO_LOADS = frozenset({"LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"})
"""Instructions of Python 3.13 that stand for two."""

WITH = ("BEFORE_WITH", "SETUP_WITH")
"""The instructions that enter a block, from Python 3.11 on and before."""

_MAX_DEPTH = 100
"""Blocks within each other that are looked at; Python allows 20."""


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


def jumps_on_to(one: Instruction) -> int:
    """Return the offset to which an instruction may jump on, as behind a loop from its head; 0 if it does not."""
    if one.name == "FOR_ITER":
        return one.at + (4 if _HAS_LOOP_CACHE else 2) + 2 * one.argument
    if one.name == "JUMP_FORWARD":
        return one.at + 2 + 2 * one.argument
    if not one.name.startswith(("POP_JUMP", "JUMP_ABSOLUTE")) or "BACKWARD" in one.name:
        return 0
    if not _HAS_ONE_ARRAY:
        return 2 * one.argument
    return one.at + (4 if _HAS_JUMP_CACHE else 2) + 2 * one.argument


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


CALLS_WITH_NAMES = frozenset({"CALL_KW", "CALL_FUNCTION_KW"})
"""Calls that take the names of their last arguments from the stack."""

CALLS = frozenset({"CALL", "CALL_FUNCTION", "CALL_METHOD"}) | CALLS_WITH_NAMES
"""Calls whose arguments stand one by one on the stack."""


class Operands(NamedTuple):
    """The instructions that have made what a call calls, and each argument; ``is_whole`` if there are no others."""

    called: Sequence[Instruction]
    positional: list[Sequence[Instruction]]
    named: dict[str, Sequence[Instruction]]
    is_whole: bool


def operands_of(code: CodeType, instructions: Sequence[Instruction], index: int) -> Operands | None:
    """Return the operands of a call; None for another instruction, and where an operand comes by a jump."""
    now, end = instructions[index], index
    is_unpacked = now.name == "CALL_FUNCTION_EX"
    if now.name not in CALLS and not is_unpacked:
        return None
    count = 1 + (now.argument & 1) if is_unpacked else now.argument
    names: tuple[str, ...] = ()
    if now.name in CALLS_WITH_NAMES:
        end -= 1
        names = code.co_consts[instructions[end].argument]
    while end and instructions[end - 1].name in ("PRECALL", "KW_NAMES", "NOP"):
        end -= 1
        if instructions[end].name == "KW_NAMES":
            names = code.co_consts[instructions[end].argument]
    made: list[Sequence[Instruction]] = []
    # A method stands with its object on the stack, and from Python 3.11 on a function with a null.
    is_alone = now.name.startswith("CALL_FUNCTION") and not _HAS_ONE_ARRAY
    for needed in (*[1] * count, 1 if is_alone else 2):
        start = operands_start(instructions, end, needed)
        if start is None:
            return None
        made.insert(0, instructions[start:end])
        end = start
    called, *arguments = made
    if is_unpacked:
        return Operands(called, [], {}, is_whole=False)
    split = len(arguments) - len(names)
    return Operands(called, arguments[:split], dict(zip(names, arguments[split:], strict=True)), is_whole=True)


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


# Newer Pythons name what only their compiler uses above 255.
_OPCODES = tuple(opmap[name] for name in WITH if opmap.get(name, 256) < 256)

_HAS_TABLE = sys.version_info >= (3, 11)


@lru_cache(1024)
def has_with(code: CodeType) -> bool:
    """Tell whether a function has a ``with`` block; fast, for thousands of functions."""
    raw = code.co_code[::2]
    return any(number in raw for number in _OPCODES)


def entered(code: CodeType, instructions: Sequence[Instruction], at: int) -> list[int]:
    """Return the indices of the instructions that have entered the blocks around offset ``at``, innermost first."""
    if _HAS_TABLE:
        return list(_by_table(code, instructions, at))
    found = [
        index
        for index, one in enumerate(instructions)
        if one.name == "SETUP_WITH" and one.at < at < one.at + 2 + 2 * one.argument
    ]
    return found[::-1]


def tried(code: CodeType, instructions: Sequence[Instruction], at: int, now: int) -> bool:
    """Tell whether offset ``at`` is within a ``try``, or the body of a ``with``, in which offset ``now`` is not."""
    if _HAS_TABLE:
        table = _exception_table(code.co_exceptiontable)  # type: ignore[attr-defined] # from Python 3.11 on
        ranges = [(start, end) for start, end, _ in table]
    else:
        ranges = [
            (one.at, one.at + 2 + 2 * one.argument)
            for one in instructions
            if one.name in ("SETUP_FINALLY", "SETUP_WITH")
        ]
    return any(start <= at < end and not start <= now < end for start, end in ranges)


def _by_table(code: CodeType, instructions: Sequence[Instruction], at: int) -> Iterator[int]:
    # The handler of a block is in turn covered by the next outer block.
    table = _exception_table(code.co_exceptiontable)  # type: ignore[attr-defined] # from Python 3.11 on
    for _ in range(_MAX_DEPTH):
        handler = next((target for start, end, target in table if start <= at < end), None)
        if handler is None:
            return
        index = index_of(instructions, handler)
        if index is not None and [one.name for one in instructions[index : index + 2]] == [
            "PUSH_EXC_INFO",
            "WITH_EXCEPT_START",
        ]:
            begins = min(start for start, _, target in table if target == handler)
            first = index_of(instructions, begins)
            if first and instructions[first - 1].name == "BEFORE_WITH":
                yield first - 1
        if handler == at:
            return
        at = handler


@lru_cache(256)
def _exception_table(raw: bytes) -> tuple[tuple[int, int, int], ...]:
    """Return for each range of a function's code its start, its end, and its handler."""
    numbers = list(_numbers(raw))
    return tuple(
        (2 * start, 2 * (start + length), 2 * target)
        for start, length, target in zip(numbers[::4], numbers[1::4], numbers[2::4], strict=False)
    )


def _numbers(raw: bytes) -> Iterator[int]:
    value = 0
    for byte in raw:
        # Bit 7 marks the first byte of an entry, bit 6 a number that goes on.
        value = value << 6 | byte & 63
        if not byte & 64:
            yield value
            value = 0
