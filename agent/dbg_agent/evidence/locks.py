"""Locks that threads wait for, and the threads that hold them.

An RLock knows its owner. A Lock does not, so its holder is searched for in the frames of all threads. A frame in the
body of a lock's ``with`` block holds the lock. So does a frame that has called ``acquire`` and not yet ``release``. The
holder is unknown if another process took the lock, or if the function that took it has already returned.
"""

from __future__ import annotations

import _thread
import ast
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, NamedTuple

from dbg_agent.evidence.stacks import SeenThread
from dbg_agent.frames.expressions import CallSite, Values, entered_items
from dbg_agent.frames.source import Spot, nodes_in, span_of, spot_of
from dbg_agent.frames.variables import UNKNOWN, attribute, attributes, has_method, is_a

LOCK = type(_thread.allocate_lock())
RLOCK = _thread.RLock

MAX_SECONDS = 0.04
"""Maximum CPU time, in seconds, of one query's search for holders of locks in frames."""

_OWNER = re.compile(r" owner=([0-9]+) ")
_ENTRIES = ("acquire", "acquire_lock", "__enter__")
_CALLS = ("acquire", "release")


class WantedLock(NamedTuple):
    """The lock that a thread waits for: the object, and the thread's expression for it."""

    lock: Any
    text: str


class Holders:
    """The holders of locks in one snapshot of all threads. Each frame is read at most once."""

    def __init__(self, threads: Sequence[SeenThread]) -> None:
        self._threads = threads
        self._held: list[tuple[int, Any]] | None = None
        self._until = time.thread_time() + MAX_SECONDS

    def of(self, lock: object) -> int | None:
        """Return the ident of the thread that holds the lock, or None if it is unknown."""
        owner = owner_of(lock)
        if owner is not None:
            return owner or None
        if type(lock) is not LOCK or not lock.locked():
            return None
        if self._held is None:
            self._held = list(self._all_held())
        return next((ident for ident, held in self._held if held is lock), None)

    def _all_held(self) -> Iterator[tuple[int, Any]]:
        for thread in self._threads:
            if not thread.is_readable:
                continue
            for frame in thread.frames:
                if time.thread_time() > self._until:
                    return
                # The code may not come from Python's compiler, so reading it may fail.
                with suppress(Exception):
                    for value in _held_in(frame):
                        yield from ((thread.ident, lock) for lock in _locks_of(value))


def wanted_lock(site: CallSite) -> WantedLock | None:
    """Return the lock that a call waits to acquire, or None if the call does not acquire a lock."""
    called = site.called
    value = called.value if site.is_with else called.owner if called.name in _ENTRIES else UNKNOWN
    text = called.text if site.is_with else called.owner_text
    return WantedLock(value, text) if type(value) in (LOCK, RLOCK) else None


def owner_of(lock: object) -> int | None:
    """Return the ident of an RLock's owner, 0 if it is free, or None if it is not an RLock."""
    if type(lock) is RLOCK:
        found = _OWNER.search(repr(lock))
        return int(found[1]) if found else 0
    return None


def _held_in(frame: FrameType) -> list[Any]:
    code = frame.f_code
    # A `with` block has an entry in the exception table. Most functions have neither an entry nor `acquire`; skip them.
    if "acquire" not in code.co_names and not code.co_exceptiontable:
        return []
    spot = spot_of(frame)
    values = Values(frame, reads=True)
    found = [values.of(one) for one in (*_open_blocks(spot), *_acquired(spot))] if spot is not None else []
    return [one for one in found if one is not UNKNOWN]


def _open_blocks(spot: Spot) -> Iterator[ast.expr]:
    """Yield the expressions of the ``with`` blocks that the frame has entered."""
    if isinstance(spot.node, ast.With):
        # Before Python 3.13, instructions that enter the block have the position of the whole `with` statement.
        yield from (one.context_expr for one in spot.node.items[: max(entered_items(spot) - 1, 0)])
    for parent, child in spot.outward(spot.node):
        if isinstance(parent, ast.With):
            count = parent.items.index(child) if isinstance(child, ast.withitem) else len(parent.items)
            yield from (one.context_expr for one in parent.items[:count])


def _acquired(spot: Spot) -> list[ast.expr]:
    """Return the objects with a call of `acquire`, and no `release` after it, in the source before the running call."""
    _, line, _, column = span_of(spot.node)
    last: dict[str, tuple[str, ast.expr]] = {}
    calls = [one.func for one in nodes_in(spot.scope) if isinstance(one, ast.Call) and one is not spot.node]
    methods = [one for one in calls if isinstance(one, ast.Attribute) and one.attr in _CALLS]
    for method in sorted(methods, key=lambda one: span_of(one)[1::2]):
        # Later calls have not run, and the running one has not returned yet.
        if span_of(method)[1::2] < (line, column):
            last[ast.unparse(method.value)] = method.attr, method.value
    return [value for name, value in last.values() if name == "acquire"]


def _locks_of(value: object) -> list[Any]:
    """Return the lock that the object is, or that it wraps; empty if it wraps several."""
    if type(value) in (LOCK, RLOCK):
        return [value]
    if is_a(value, threading.Condition):
        return [attribute(value, "_lock")]
    if not has_method(value, "acquire"):
        return []
    found = [one for one in list(attributes(value).values()) if type(one) in (LOCK, RLOCK)]
    return found if len(found) == 1 else []
