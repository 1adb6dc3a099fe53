"""In the body of which ``with`` and ``try`` blocks a frame is, from its code alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from opcode import opmap
from types import CodeType

from dbg_agent.evidence.instructions import Instruction, index_of

WITH = ("BEFORE_WITH", "SETUP_WITH")
"""The instructions that enter a block, from Python 3.11 on and before."""

# Newer Pythons name what only their compiler uses above 255.
_OPCODES = tuple(opmap[name] for name in WITH if opmap.get(name, 256) < 256)
_MAX_DEPTH = 100
"""Blocks within each other that are looked at; Python allows 20."""

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
