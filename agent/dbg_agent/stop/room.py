"""The room on a thread's stack that a stop needs: where there is less, no stop is made, and the program goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable

STACK_FRAMES = 100
"""Depth of calls with which a stop begins, imports at its first use included; with less it could break off anywhere."""

DEBUGGER_FRAMES = 250
"""Frames for debuggers and questions: urwid nests a hundred to draw PuDB, its first import nearly as many."""


def has_room(frames: int = STACK_FRAMES) -> bool:
    """Tell whether the calling thread may nest so many calls more."""
    try:
        sys._getframe(max(sys.getrecursionlimit() - frames, 0))
    except ValueError:
        return True
    return False


def lacks_room(failed: Callable[[Exception], object], frames: int = STACK_FRAMES) -> bool:
    """Tell whether the calling thread may not nest so many calls more; if so, ``failed`` is told."""
    if has_room(frames):
        return False
    try:  # noqa: SIM105 - contextlib would need the stack that is missing
        failed(RecursionError("too close to the recursion limit"))
    except RecursionError:
        pass
    return True
