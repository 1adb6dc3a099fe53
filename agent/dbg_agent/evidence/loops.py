"""The loops that the frames of a thread are in, and which of them try or ask something again and again.

All is read from the code of functions: no source is needed, and no variable is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType

from dbg_agent.evidence.instructions import (
    CALLS,
    Instruction,
    index_of,
    instructions_of,
    jumps_back_to,
    jumps_on_to,
    name_in,
    operands_of,
    tried,
)
from dbg_agent.stop.stacks import is_users_file
from dbg_wire.errors import printable
from dbg_wire.records.evidence import MAX_LOOPS, LoopSeen
from dbg_wire.records.record import fitted

MAX_HELPERS = 1
"""Functions between a loop and its sleep: in a longer chain the loop is hardly one that waits for something."""

MAX_USER_FRAMES = 12
"""Innermost frames of the user's code in which loops are looked for."""

MAX_TRIES, MAX_NAME = 3, 40
"""Calls of a loop that are told, and characters of a name."""

SLEEP = "sleep"

_NAMED_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "LOAD_FAST", "LOAD_DEREF"})
"""Instructions that load a function by its name."""

_COMPARES = frozenset({"TO_BOOL", "UNARY_NOT", "NOP", "PRECALL", "COMPARE_OP", "IS_OP", "CONTAINS_OP"})
_BETWEEN = _COMPARES | _NAMED_LOADS | CALLS | {"LOAD_CONST", "LOAD_FAST_CHECK", "LOAD_SMALL_INT"}
"""Instructions between a call and the jump that its result decides, as in ``while int(store.get("n")) < size``."""

MAX_BETWEEN = 10
"""Such instructions that are looked through."""


def innermost_loop(frame: FrameType, instructions: Sequence[Instruction]) -> tuple[int, int] | None:
    """Return where the innermost loop begins and ends in which a frame is, as offsets; None if it is in none."""
    around = [
        (start, one.at) for one in instructions for start in [jumps_back_to(one)] if start <= frame.f_lasti <= one.at
    ]
    return max(around, default=None)


def loops_seen(frames: Sequence[FrameType], count: int) -> tuple[LoopSeen, ...]:
    """Return the loops around the frames of a thread, innermost first, as that many of the frames are told."""
    own = [(at, frame) for at, frame in enumerate(frames[:count]) if is_users_file(frame.f_code.co_filename)]
    found: list[LoopSeen] = []
    told = min(count, len(frames))
    for at, frame in own[:MAX_USER_FRAMES]:
        loops = sorted(_loop_lines(frame), reverse=True)
        found += [fitted(LoopSeen, frame=told - 1 - at, first=first, last=last) for first, last in loops]
    return tuple(found[:MAX_LOOPS])


def _loop_lines(frame: FrameType) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each loop in which a frame is and that has an end of its own."""
    instructions = instructions_of(frame.f_code)
    for start in sorted({jumps_back_to(one) for one in instructions}):
        # The argument of a large jump begins before it.
        index = bisect_left(instructions, (start,))
        if not start <= frame.f_lasti or not 0 < index < len(instructions):
            continue
        # The head of a `for` jumps behind it; that of a `while` stands before the goal of the jump back.
        is_for = instructions[index].name == "FOR_ITER"
        end = jumps_on_to(instructions[index] if is_for else instructions[index - 1])
        lines = [line for at, until, line in frame.f_code.co_lines() if line and at < end and until > start]
        if frame.f_lasti < end and lines:
            yield min(lines), max(lines)


def retried(frames: Sequence[FrameType]) -> str:
    """Return ``post_metrics (metrics.py): urlopen``, whose loop sleeps between tries and what it tries, or nothing.

    ``frames`` are those of a thread that sleeps. A try is a call in the loop within a ``try`` in which the sleep is
    not, or one whose result decides whether the loop goes on.
    """
    for frame in frames[: 1 + MAX_HELPERS]:
        instructions = instructions_of(frame.f_code)
        loop = innermost_loop(frame, instructions)
        if loop is not None:
            # The loop of a pool's thread looks the same, and tries nothing again.
            is_users = is_users_file(frame.f_code.co_filename)
            return _told(frame.f_code, instructions, loop, frame.f_lasti) if is_users else ""
    return ""


def retries(frames: Sequence[FrameType]) -> str:
    """Return the same of a thread that is in a try, and not in the sleep that comes behind it."""
    frame = next((one for one in frames if is_users_file(one.f_code.co_filename)), None)
    if frame is None:
        return ""
    code, instructions, now = frame.f_code, instructions_of(frame.f_code), frame.f_lasti
    loop, index = innermost_loop(frame, instructions), index_of(instructions, now)
    if loop is None or index is None:
        return ""
    for at, one in enumerate(instructions):
        is_pause = loop[0] <= one.at <= loop[1] and _called_name(code, instructions, at) == SLEEP
        if is_pause and (tried(code, instructions, now, one.at) or _decides(instructions, index, loop)):
            return _told(code, instructions, loop, one.at)
    return ""


def _told(code: CodeType, instructions: Sequence[Instruction], loop: tuple[int, int], sleep: int) -> str:
    names = [
        name
        for index, one in enumerate(instructions)
        if loop[0] <= one.at <= loop[1]
        and (name := _called_name(code, instructions, index))
        and (tried(code, instructions, one.at, sleep) or _decides(instructions, index, loop))
    ]
    told = ", ".join(printable(name[:MAX_NAME]) for name in list(dict.fromkeys(names))[:MAX_TRIES])
    file = printable(code.co_filename.rpartition("/")[2][:MAX_NAME])
    return f"{printable(code.co_name[:MAX_NAME])} ({file}): {told}" if told else ""


def _called_name(code: CodeType, instructions: Sequence[Instruction], index: int) -> str:
    """Return the name of the function that an instruction calls; empty if it calls none that has one."""
    if instructions[index].name not in CALLS:
        return ""
    operands = operands_of(code, instructions, index)
    loads = [load for load in operands.called if load.name in _NAMED_LOADS] if operands is not None else []
    return name_in(code, loads[-1]) if loads else ""


def _decides(instructions: Sequence[Instruction], index: int, loop: tuple[int, int]) -> bool:
    """Tell whether the result of a call decides that a loop goes on, as in ``while not is_ready()``."""
    at = index + 1
    while at < min(len(instructions), index + MAX_BETWEEN) and instructions[at].name in _BETWEEN:
        at += 1
    jump = instructions[at] if at < len(instructions) else None
    if jump is None or "JUMP" not in jump.name or "_IF_" not in jump.name:
        return False
    # Of `if is_ready(): break` what is jumped over leaves the loop.
    passed = (one for one in instructions[at + 1 :] if one.at < jumps_on_to(jump))
    return _leaves(jump, loop) or any(_leaves(one, loop) for one in passed)


def _leaves(one: Instruction, loop: tuple[int, int]) -> bool:
    """Tell whether an instruction leaves a loop, or begins it anew because of a value."""
    if "JUMP" not in one.name:
        return one.name.startswith("RETURN")
    goal = jumps_on_to(one) or jumps_back_to(one)
    return goal > loop[1] or (goal <= loop[0] and "_IF_" in one.name)
