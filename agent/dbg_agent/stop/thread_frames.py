"""The innermost frame of each thread of this process, from any thread."""

from __future__ import annotations

import gc
import sys
from operator import methodcaller
from types import FrameType

LOOK_MAY_LOCK_UP = (3, 11) <= sys.version_info < (3, 11, 12)
"""Whether ``sys._current_frames`` may stop the whole process for ever (CPython issue 106883). In these releases a
garbage collection may begin inside it, while it keeps the interpreter's list of threads locked. If the collection runs
Python code, a thread that starts or ends just then waits for the list and keeps the interpreter's lock (GIL)."""

_call = methodcaller("__call__")


def thread_frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread, by the thread's number in :mod:`threading`.

    No garbage collection begins meanwhile in the releases of Python in which one would be dangerous.
    """
    if not LOOK_MAY_LOCK_UP or not gc.isenabled():
        return sys._current_frames()
    frames: dict[int, FrameType]
    try:
        # One call of C code, in which no other thread runs. Collections may have been turned off since they were seen
        # on, and are then off again at the end.
        is_on, _, frames, _ = tuple(map(_call, (gc.isenabled, gc.disable, sys._current_frames, gc.enable)))
    except BaseException:
        gc.enable()
        raise
    if not is_on:
        gc.disable()
    return frames
