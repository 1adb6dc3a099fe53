"""The room on a thread's stack that a stop needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STACK_FRAMES = 100
"""Depth of calls with which a stop begins, imports at its first use included; with less it could break off anywhere."""

DEBUGGER_FRAMES = 500
"""Frames for debuggers and questions, even if the program stops close to the recursion limit: urwid nests a hundred to
draw PuDB, the first import of PuDB nearly as many, and users want to look at a stop in endless recursion."""


def has_room(frames: int = STACK_FRAMES) -> bool:
    """Return True, or raise RecursionError if the stack has no room for so many calls."""
    return frames == 0 or has_room(frames - 1)


@contextmanager
def room_for_debuggers() -> Iterator[None]:
    """Make room for DEBUGGER_FRAMES frames in this context; afterwards restore the program's recursion limit."""
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    limit = sys.getrecursionlimit()
    if limit - depth >= DEBUGGER_FRAMES:
        yield
        return
    raised = depth + DEBUGGER_FRAMES
    sys.setrecursionlimit(raised)
    try:
        yield
    finally:
        # A typed command may have set another limit on purpose.
        if sys.getrecursionlimit() == raised:
            sys.setrecursionlimit(limit)
