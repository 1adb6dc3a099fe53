"""All Python threads of this process but our own, with their names and stacks; from any thread, and without a lock."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from dbg_wire.limits import MAX_THREAD_FRAMES, MAX_THREADS
from dbg_wire.ranks import Place, ThreadStack
from dbg_wire.records import fitted

from ..stop.stacks import bounded_stack, is_own, stack_of

OWN_NAMES = "dbg-agent"
"""How the names of our threads begin: one that has just been started has no frame of ours yet."""

UNNAMED = "unnamed"
"""The name of a thread that C code has made and Python knows nothing of."""


def thread_stacks(halted: int | None, stack: tuple[Place, ...]) -> tuple[ThreadStack, ...]:
    """Return the threads, the main one first; ``stack`` is that of the thread ``halted``, if one stands in a stop."""
    main = threading.main_thread().ident
    frames = sys._current_frames()
    # `threading.enumerate` takes a lock, which a thread that stands in a stop may hold.
    known = dict(getattr(threading, "_active", {}))
    idents = [ident for ident in frames if ident == main or not _is_ours(known.get(ident), frames[ident])]
    idents.sort(key=lambda ident: (ident != main, ident != halted))
    return tuple(
        fitted(
            ThreadStack,
            name=_name(known.get(ident)),
            frames=bounded_stack(stack, MAX_THREAD_FRAMES)
            if ident == halted
            else stack_of(frames[ident], MAX_THREAD_FRAMES),
            halted=ident == halted,
        )
        for ident in idents[:MAX_THREADS]
    )


def _name(thread: Any) -> str:
    name = getattr(thread, "_name", None)
    return name if isinstance(name, str) and name else UNNAMED


def _is_ours(thread: Any, frame: FrameType) -> bool:
    """Tell whether our code is the outermost of a thread, apart from what starts every thread."""
    if _name(thread).startswith(OWN_NAMES):
        return True
    outermost: FrameType | None = None
    walk: FrameType | None = frame
    while walk is not None:
        if walk.f_globals.get("__name__") != "threading":
            outermost = walk
        walk = walk.f_back
    return outermost is not None and is_own(outermost)
