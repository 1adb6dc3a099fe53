"""The local variables of a frame that goes on later: what is assigned there, and what a look at them leaves behind."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

from dbg_agent.stop.stacks import outward

WRITES_THROUGH = sys.version_info >= (3, 13)
"""Whether ``f_locals`` of a function writes to the frame itself; before that it is a copy that the frame keeps."""

SOLE_REFERENCES = 3
"""References to a copy that only its frame has: the frame's, our variable's and that of the call that counts."""

CO_OPTIMIZED = 1
"""The flag of functions' code, as in :mod:`inspect`."""


def write_back(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Make ``values``, which are ``f_locals`` of a frame with what was assigned there, the frame's own.

    In the thread of the frame. What was deleted there stays. A debugger that has ``f_locals`` of the frame can assign
    there as before.
    """
    if WRITES_THROUGH:
        return
    assigned = dict(values)
    # Python 3.11 writes a copy back only once for each time that it was read, so it is read before and after.
    copy: Any = frame.f_locals
    copy.update(assigned)
    # 0 keeps variables that the copy lacks. To delete one is for Python 3.12 to assign None, with a warning.
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    frame.f_locals  # noqa: B018 - see above


def release(frames: Iterable[FrameType]) -> None:
    """Empty the copies of locals that these frames keep since somebody read them: they keep tensors alive.

    In the thread of the frames. A copy that the program or a debugger has as well stays. So does that of a frame whose
    trace or profile function runs just now, since Python writes it back afterwards.
    """
    if WRITES_THROUGH:
        return
    traced = _traced_now()
    for frame in frames:
        if frame.f_code.co_flags & CO_OPTIMIZED and id(frame) not in traced:
            empty(frame)


def read_locals(frame: FrameType) -> dict[str, Any]:
    """Return a copy of a frame's variables, and leave none with the frame; in the thread of the frame."""
    values = dict(frame.f_locals)
    release([frame])
    return values


def empty(frame: FrameType) -> None:
    """Empty the copy of locals that a function's frame keeps, unless the program or a debugger has it as well.

    Not for a frame of a thread that is traced: Python writes the copy back. Nothing happens from Python 3.13 on.
    """
    if WRITES_THROUGH:
        return
    copy: Any = frame.f_locals
    if type(copy) is dict and sys.getrefcount(copy) == SOLE_REFERENCES:
        code = frame.f_code
        # Names that `exec` has added are not the frame's variables; only the copy has them.
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            copy.pop(name, None)


def _traced_now() -> set[int]:
    """Return the ids of the frames for which a trace or profile function runs in this thread."""
    traced = set()
    for frame in outward(sys._getframe()):
        code = frame.f_code
        if "event" in code.co_varnames[: min(code.co_argcount, 4)] or sys.getprofile() is not None:
            traced.add(id(frame.f_back))
    return traced
