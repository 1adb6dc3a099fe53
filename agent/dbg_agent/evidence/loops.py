"""The loops that the frames of a thread are in, and which of them try or ask something again and again.

All is read from the source of functions, and no variable is read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType

from dbg_agent.frames.source import Spot, nodes_in, operation, span_of, spot_of
from dbg_agent.frames.stacks import is_users_file, place_of
from dbg_wire.records.evidence import MAX_LOOPS, Doing, LoopSeen, What
from dbg_wire.records.record import fitted

MAX_HELPERS = 1
"""Functions between a loop and its sleep: in a longer chain the loop is hardly one that waits for something."""

MAX_USER_FRAMES = 12
"""Innermost frames of the user's code in which loops are looked for."""

MAX_TRIES = 3
"""Calls of a loop that are told."""

SLEEP = "sleep"

Loop = ast.For | ast.AsyncFor | ast.While


def loops_around(spot: Spot) -> Iterator[Loop]:
    """Yield the loops in which a frame is, the innermost first."""
    if isinstance(spot.node, (ast.For, ast.AsyncFor)):
        # Before Python 3.13 the next item comes at the position of the whole statement.
        yield spot.node
    for parent, child in spot.outward(spot.node):
        is_next = isinstance(parent, ast.For) and child is parent.iter and operation(spot.frame) == "FOR_ITER"
        if isinstance(parent, Loop) and (is_next or child in _repeated(parent)):
            yield parent


def _repeated(loop: Loop) -> list[ast.AST]:
    return [*loop.body, *([loop.test] if isinstance(loop, ast.While) else [])]


def loops_seen(frames: Sequence[FrameType], count: int) -> tuple[LoopSeen, ...]:
    """Return the loops around the frames of a thread, innermost first, as that many of the frames are told."""
    own = [(at, frame) for at, frame in enumerate(frames[:count]) if is_users_file(frame.f_code.co_filename)]
    found: list[LoopSeen] = []
    told = min(count, len(frames))
    for at, frame in own[:MAX_USER_FRAMES]:
        spot = spot_of(frame)
        # A loop without an end of its own is left in its middle.
        loops = [one for one in loops_around(spot) if not _is_endless(one)] if spot is not None else []
        found += [
            fitted(LoopSeen, frame=told - 1 - at, first=one.lineno, last=span_of(one.body[-1])[1]) for one in loops
        ]
    return tuple(found[:MAX_LOOPS])


def _is_endless(loop: Loop) -> bool:
    return isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant)


def retried(frames: Sequence[FrameType]) -> Doing | None:
    """Return the function whose loop sleeps between tries and what it tries; None without one.

    ``frames`` are those of a thread that sleeps. A try is a call in the loop within a ``try`` in which the sleep is
    not, or one whose result decides whether the loop goes on.
    """
    for frame in frames[: 1 + MAX_HELPERS]:
        spot = spot_of(frame)
        loop = next(loops_around(spot), None) if spot is not None else None
        if spot is not None and loop is not None:
            # The loop of a pool's thread looks the same, and tries nothing again.
            return _told(spot, loop, spot.node) if is_users_file(frame.f_code.co_filename) else None
    return None


def retries(frames: Sequence[FrameType]) -> Doing | None:
    """Return the same of a thread that is in a try, and not in the sleep that comes behind it."""
    frame = next((one for one in frames if is_users_file(one.f_code.co_filename)), None)
    spot = spot_of(frame) if frame is not None else None
    loop = next(loops_around(spot), None) if spot is not None else None
    if spot is None or loop is None:
        return None
    for pause in calls_in(loop):
        if _called_name(pause) == SLEEP and (tried(spot, spot.node, pause) or _decides(spot, spot.node, loop)):
            return _told(spot, loop, pause)
    return None


def calls_in(loop: Loop) -> list[ast.Call]:
    """Return the calls of each turn of a loop, in the order in which they are made."""
    found = (one for part in _repeated(loop) for one in nodes_in(part) if isinstance(one, ast.Call))
    return sorted(found, key=lambda one: span_of(one)[1::2])


def tried(spot: Spot, node: ast.AST, other: ast.AST) -> bool:
    """Return whether a node is within a ``try``, or the body of a ``with``, in which another node is not."""
    around_other = [child for _, child in spot.outward(other)]
    return any(
        isinstance(parent, (ast.Try, ast.TryStar, ast.With))
        and child in parent.body
        and not any(one in around_other for one in parent.body)
        for parent, child in spot.outward(node)
    )


def _told(spot: Spot, loop: Loop, sleep: ast.AST) -> Doing | None:
    calls = (one for one in calls_in(loop) if tried(spot, one, sleep) or _decides(spot, one, loop))
    names = dict.fromkeys(name for one in calls if (name := _called_name(one)))
    if not names:
        return None
    place = place_of(spot.frame)
    told = (*list(names)[:MAX_TRIES], SLEEP)
    return fitted(Doing, what=What.LOOPS, function=place.function, place=place, names=told)


def _called_name(call: ast.Call) -> str:
    """Return the name of the function that is called; empty if it has none."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _decides(spot: Spot, node: ast.AST, loop: Loop) -> bool:
    """Tell whether the result of a call decides that a loop goes on, as in ``while not is_ready()``."""
    for parent, child in spot.outward(node):
        if isinstance(parent, (ast.While, ast.If)) and child is parent.test:
            # Of `if is_ready(): break` the block leaves the loop.
            leaves = (isinstance(one, (ast.Break, ast.Return)) for one in (*parent.body, *parent.orelse))
            return parent is loop or (isinstance(parent, ast.If) and any(leaves))
        if parent is loop:
            return False
    return False
