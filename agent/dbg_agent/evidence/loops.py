"""Polling loops in the frames of a thread: the calls that they retry, and the file that they wait for.

Everything is read from the source of functions. The arguments of a call are computed from names, constants and path
operations, as far as this runs no code of the program.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from types import FrameType, FunctionType
from typing import Any

from dbg_agent.frames.expressions import MadePath, Values, is_path, text_of
from dbg_agent.frames.source import COMPREHENSIONS, Spot, nodes_in, operation, span_of, spot_of
from dbg_agent.frames.stacks import is_users_file, place_of
from dbg_agent.frames.variables import UNKNOWN, method
from dbg_agent.host.descriptors import looked_up
from dbg_wire.records.evidence import Activity, ActivityInfo
from dbg_wire.records.record import clamp

MAX_HELPERS = 1
"""Maximum number of functions between a loop and the sleep it calls: with more, the loop is rarely a wait."""

MAX_TRIES = 3
"""Maximum number of calls of a loop that are reported."""

SLEEP = "sleep"

Loop = ast.For | ast.AsyncFor | ast.While


def loops_around(spot: Spot) -> Iterator[Loop]:
    """Yield the loops that contain the frame's current position, innermost first."""
    if isinstance(spot.node, (ast.For, ast.AsyncFor)):
        # Before Python 3.13, the instruction that fetches the next item has the position of the whole `for` statement.
        yield spot.node
    for parent, child in spot.outward(spot.node):
        is_next = isinstance(parent, ast.For) and child is parent.iter and operation(spot.frame) == "FOR_ITER"
        if isinstance(parent, Loop) and (is_next or child in _repeated(parent)):
            yield parent


def _repeated(loop: Loop) -> list[ast.AST]:
    return [*loop.body, *([loop.test] if isinstance(loop, ast.While) else [])]


def retried(frames: Sequence[FrameType]) -> ActivityInfo | None:
    """Return the function whose loop sleeps between attempts, and the attempted calls; None if there is no such loop.

    ``frames`` are the frames of a sleeping thread. An attempt is a call in the loop. Either it is inside a
    ``try`` that does not contain the sleep, or its result decides whether the loop continues.
    """
    for frame in frames[: 1 + MAX_HELPERS]:
        spot = spot_of(frame)
        loop = next(loops_around(spot), None) if spot is not None else None
        if spot is not None and loop is not None:
            # A library's loop, such as that of a pool's thread, looks the same but retries nothing.
            return _activity(spot, loop, spot.node) if is_users_file(frame.f_code.co_filename) else None
    return None


def calls_in(loop: Loop) -> list[ast.Call]:
    """Return the calls of each iteration of a loop, in the order of the source."""
    found = (one for part in _repeated(loop) for one in nodes_in(part) if isinstance(one, ast.Call))
    return sorted(found, key=lambda one: span_of(one)[1::2])


def tried(spot: Spot, node: ast.AST, other: ast.AST) -> bool:
    """Return True if ``node`` is in the body of a ``try`` or ``with``, and ``other`` is outside this body."""
    around_other = [child for _, child in spot.outward(other)]
    return any(
        isinstance(parent, (ast.Try, ast.TryStar, ast.With))
        and child in parent.body
        and not any(one in around_other for one in parent.body)
        for parent, child in spot.outward(node)
    )


def _activity(spot: Spot, loop: Loop, sleep: ast.AST) -> ActivityInfo | None:
    calls = (one for one in calls_in(loop) if tried(spot, one, sleep) or _decides(spot, one, loop))
    names = dict.fromkeys(name for one in calls if (name := _called_name(one)))
    if not names:
        return None
    place = place_of(spot.frame)
    candidates = (*list(names)[:MAX_TRIES], SLEEP)
    return clamp(ActivityInfo, what=Activity.LOOPS, function=place.function, place=place, names=candidates)


def _called_name(call: ast.Call) -> str:
    """Return the name of the called function; empty if it has none."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _decides(spot: Spot, node: ast.AST, loop: Loop) -> bool:
    """Return True if the result of a call decides whether the loop continues, as in ``while not is_ready()``."""
    for parent, child in spot.outward(node):
        if isinstance(parent, (ast.While, ast.If)) and child is parent.test:
            # In `if is_ready(): break` the block leaves the loop.
            leaves = (isinstance(one, (ast.Break, ast.Return)) for one in (*parent.body, *parent.orelse))
            return parent is loop or (isinstance(parent, ast.If) and any(leaves))
        if parent is loop:
            return False
    return False


MAX_ITEMS = 1000
"""Maximum number of files of one generator that are checked."""

_TESTS = frozenset({"exists", "lexists", "isfile", "isdir", "is_file", "is_dir", "glob", "iglob", "access"})
"""Functions and path methods that test for a file. They don't raise if it is missing."""

_USES = frozenset({"stat", "lstat", "getsize", "getmtime", "open", "read_text", "read_bytes"})
"""Functions and path methods that raise if the file is missing, so they only test for a file inside a `try`."""


def polled_file(frames: Sequence[FrameType], *, reads: bool) -> str | None:
    """Return the file that the innermost loop around a thread's call waits for; empty if its name is unknown.

    Return None if the loop does not wait for a file. Without ``reads`` no local variable is read.
    """
    for frame in frames[: 1 + MAX_HELPERS]:
        spot = spot_of(frame)
        loop = next(loops_around(spot), None) if spot is not None else None
        if spot is not None and loop is not None:
            return next(_looked_for(spot, loop, reads), None)
    return None


def _looked_for(spot: Spot, loop: Loop, reads: bool) -> Iterator[str]:
    for call in calls_in(loop):
        paths = []
        for values in _turns(spot, call, reads):
            path, is_test = _path_of_call(values, call)
            if path is None or not (is_test or tried(spot, call, spot.node)):
                break
            paths.append(path)
        if paths:
            yield next((one for one in paths[1:] and paths if one and looked_up(one).age is None), paths[0])


def _turns(spot: Spot, call: ast.Call, reads: bool) -> Iterator[Values]:
    """Yield the values of variables that a call uses. In a comprehension, yield them once for each known item."""
    values = Values(spot.frame, reads)
    around = next((parent for parent, _ in spot.outward(call) if isinstance(parent, COMPREHENSIONS)), None)
    (only, *others) = around.generators if around is not None else (None,)
    if only is None or others or not isinstance(only.target, ast.Name) or any(call is one for one in ast.walk(only)):
        yield values
        return
    items = values.of(only.iter)
    for item in items[:MAX_ITEMS] if type(items) in (range, list, tuple) else [UNKNOWN]:
        yield Values(spot.frame, reads, {only.target.id: item})


def _path_of_call(values: Values, call: ast.Call) -> tuple[str | None, bool]:
    """Return the file that a call tests for, or None. The flag is False if the call is a test only inside a ``try``."""
    given = [values.of(one) for one in call.args]
    owner, name = (values.of(call.func.value), call.func.attr) if isinstance(call.func, ast.Attribute) else (None, "")
    if isinstance(owner, MadePath) or is_path(owner):
        if name not in _TESTS | _USES or (name == "open" and not _is_reading(given)):
            return None, False
        text = text_of(owner)
        if name == "glob":
            text = os.path.join(text, given[0]) if text and given and type(given[0]) is str else ""  # noqa: PTH118
        return text, name in _TESTS
    called = values.of(call.func)
    called = method(owner, name) if called is UNKNOWN and name else called
    is_test, is_use = (any(called is one for one in _functions(names)) for names in (_TESTS, _USES))
    # If the program calls its own function that makes the test, the function's first argument is taken as the file.
    is_helper = type(called) is FunctionType and not is_use and not _TESTS.isdisjoint(called.__code__.co_names)
    if is_test or is_helper or (is_use and (called is not open or _is_reading(given[1:]))):
        return text_of(given[0]) if given else "", not is_use
    return None, False


def _is_reading(modes: Sequence[Any]) -> bool:
    return not modes or (type(modes[0]) is str and modes[0].startswith("r") and "+" not in modes[0])


def _functions(names: frozenset[str]) -> list[Any]:
    modules = [os.path, os, sys.modules.get("glob")]
    found = [vars(module)[name] for module in modules if module is not None for name in names if name in vars(module)]
    # `os.open` is excluded, because it can also create files.
    return [one for one in found if one is not os.open] + ([open] if "open" in names else [])
