"""Which file a loop looks for again and again, from its code alone.

The operands of the loop's calls are worked out from names, constants and what joins paths, as far as that runs no code
of the program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from types import FrameType, FunctionType
from typing import Any, NamedTuple

from dbg_agent.evidence.expressions import worked_out
from dbg_agent.evidence.instructions import (
    CALLS,
    CALLS_WITH_NAMES,
    Instruction,
    instructions_of,
    name_in,
    operands_of,
    tried,
)
from dbg_agent.evidence.loops import MAX_HELPERS, innermost_loop
from dbg_agent.evidence.variables import UNKNOWN, attribute, class_of, method

MAX_PATH = 4096
"""Characters of a path that is worked out."""

_TESTS = frozenset({"exists", "lexists", "isfile", "isdir", "is_file", "is_dir", "glob", "iglob", "access"})
"""Functions, and methods of paths, by which a program looks for a file; none raises where there is no file."""

_USES = frozenset({"stat", "lstat", "getsize", "getmtime", "open", "read_text", "read_bytes"})
"""Those that raise where there is none, so that they look for a file within a `try` alone."""

_JOINS = frozenset({"BINARY_ADD", "BINARY_TRUE_DIVIDE", "BINARY_OP"})
_ADD, _DIVIDE = 0, 11
"""Arguments of BINARY_OP."""

_HAS_SPEC = 4
"""The argument of FORMAT_VALUE from which on there is a format."""


class _Path(NamedTuple):
    """A path of pathlib that a program makes anew each time."""

    text: str


class _Method(NamedTuple):
    """A method of an object, whose code is not looked for."""

    owner: Any
    name: str


def polled_file(frames: Sequence[FrameType], *, reads: bool) -> str | None:
    """Return the file that the innermost loop around a thread's call looks for, empty for an unknown one.

    Return None if the loop looks for none. Without ``reads`` no local variable is read.
    """
    for frame in frames[: 1 + MAX_HELPERS]:
        instructions = instructions_of(frame.f_code)
        loop = innermost_loop(frame, instructions)
        if loop is not None:
            found = _looked_for(frame, instructions, *loop, reads)
            return next(found, None)
    return None


def _looked_for(
    frame: FrameType, instructions: Sequence[Instruction], start: int, end: int, reads: bool
) -> Iterator[str]:
    for index, one in enumerate(instructions):
        if start <= one.at <= end and one.name in CALLS:
            operands = _operands(frame, instructions, index, reads)
            path, is_test = _path_of_call(*operands) if operands else (None, False)
            if path is not None and (is_test or tried(frame.f_code, instructions, one.at, frame.f_lasti)):
                yield path


def _path_of_call(called: Any, *given: Any) -> tuple[str | None, bool]:
    """Return the file that a call looks for, None for another call, and whether it needs no ``try`` for it."""
    if isinstance(called, _Method):
        is_about_file = called.name in _TESTS | _USES and (isinstance(called.owner, _Path) or is_path(called.owner))
        if not is_about_file or (called.name == "open" and not _is_reading(given)):
            return None, False
        text = _text(called.owner)
        if called.name == "glob":
            text = os.path.join(text, given[0]) if text and given and type(given[0]) is str else ""  # noqa: PTH118
        return text, called.name in _TESTS
    is_test, is_use = (any(called is one for one in _functions(names)) for names in (_TESTS, _USES))
    # Of a function of the program's own that makes a test, the file is what it was given.
    is_helper = type(called) is FunctionType and not is_use and not _TESTS.isdisjoint(called.__code__.co_names)
    if is_test or is_helper or (is_use and (called is not open or _is_reading(given[1:]))):
        return _text(given[0]) if given else "", not is_use
    return None, False


def _is_reading(modes: Sequence[Any]) -> bool:
    return not modes or (type(modes[0]) is str and modes[0].startswith("r") and "+" not in modes[0])


def _functions(names: frozenset[str]) -> list[Any]:
    modules = [os.path, os, sys.modules.get("glob")]
    found = [vars(module)[name] for module in modules if module is not None for name in names if name in vars(module)]
    # `os.open` makes files as well.
    return [one for one in found if one is not os.open] + ([open] if "open" in names else [])


def is_path(value: object) -> bool:
    """Tell whether a value is a path of pathlib."""
    return class_of(value) in (("pathlib", "PosixPath"), ("pathlib._local", "PosixPath"))


def _text(value: Any) -> str:
    """Return a path as text; empty if it is unknown."""
    if isinstance(value, _Path):
        return value.text
    if not is_path(value):
        return value if type(value) is str else ""
    # A path keeps its text once it was asked for it, and before that what it was made of.
    text = attribute(value, "_str")
    parts = next((one for name in ("_raw_paths", "_parts") if type(one := attribute(value, name)) is list), [])
    if type(text) is not str and parts and all(type(part) is str for part in parts):
        text = os.path.join(*parts)  # noqa: PTH118 - as pathlib does
    return text if type(text) is str else ""


# ------------------------------------------------------------------------------------------------------------ operands


def _operands(frame: FrameType, instructions: Sequence[Instruction], index: int, reads: bool) -> list[Any]:
    """Return what a call calls, and the arguments without a name, each UNKNOWN if it can't be worked out."""
    operands = operands_of(frame.f_code, instructions, index)
    if operands is None:
        return []
    return [_worked_out(frame, one, reads) for one in (operands.called, *operands.positional)]


def _worked_out(frame: FrameType, instructions: Sequence[Instruction], reads: bool) -> Any:
    return worked_out(frame, instructions, reads, also=lambda one, stack: _of_paths(frame, one, stack))


def _of_paths(frame: FrameType, one: Instruction, stack: list[Any]) -> bool:
    """Do what an instruction does with a text, a path or a method, apart from what would run code of the program."""
    name, count = one.name, one.argument
    if name in ("LOAD_ATTR", "LOAD_METHOD"):
        owner, label = stack.pop(), name_in(frame.f_code, one)
        value = attribute(owner, label) if owner is not UNKNOWN else UNKNOWN
        if value is UNKNOWN and owner is not UNKNOWN:
            value = method(owner, label) if not isinstance(owner, _Path) and not is_path(owner) else UNKNOWN
        stack.append(_Method(owner, label) if value is UNKNOWN else value)
    elif name in _JOINS and type(stack[-1]) is not int:
        last = stack.pop()
        stack.append(_joined(name, count, stack.pop(), last))
    elif name == "FORMAT_SIMPLE" or (name == "FORMAT_VALUE" and count == 0):
        value = stack.pop()
        stack.append(str(value) if type(value) is int else _text(value) or UNKNOWN)
    elif name in ("FORMAT_VALUE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"):
        # What stands behind a colon or an exclamation mark is not looked at.
        del stack[-1 - (count >= _HAS_SPEC if name == "FORMAT_VALUE" else name == "FORMAT_WITH_SPEC") :]
        stack.append(UNKNOWN)
    elif name == "BUILD_STRING":
        pieces = [stack.pop() for _ in range(count)][::-1]
        stack.append("".join(pieces)[:MAX_PATH] if all(type(piece) is str for piece in pieces) else UNKNOWN)
    elif name in CALLS - CALLS_WITH_NAMES:
        given = [stack.pop() for _ in range(count)][::-1]
        stack.append(_called(stack.pop(), given))
    else:
        return False
    return True


def _joined(name: str, argument: int, first: Any, second: Any) -> Any:
    is_path_joined = isinstance(first, _Path) or is_path(first)
    if name == "BINARY_TRUE_DIVIDE" or (name == "BINARY_OP" and argument == _DIVIDE):
        texts = _text(first), _text(second)
        return _Path(os.path.join(*texts)) if is_path_joined and all(texts) else UNKNOWN  # noqa: PTH118
    is_sum = name == "BINARY_ADD" or argument == _ADD
    is_text = type(first) is type(second) is str and len(first) + len(second) <= MAX_PATH
    return first + second if is_sum and is_text else UNKNOWN


def _called(called: Any, given: Sequence[Any]) -> Any:
    """Return what a call within an operand returns, if it makes a path of known ones."""
    texts = [_text(one) for one in given]
    if not texts or not all(texts):
        return UNKNOWN
    joined = os.path.join(*texts)  # noqa: PTH118 - a path of the program's, as text
    if called is os.path.join:
        return joined
    if called is str or called is os.fspath:
        return texts[0]
    pathlib = sys.modules.get("pathlib")
    if pathlib is not None and called is vars(pathlib).get("Path"):
        return _Path(joined)
    if isinstance(called, _Method) and called.name == "joinpath" and _text(called.owner):
        return _Path(os.path.join(_text(called.owner), joined))  # noqa: PTH118
    return UNKNOWN
