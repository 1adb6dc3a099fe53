"""Assignments to the local variables of a frame that goes on later."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

WRITES_THROUGH = sys.version_info >= (3, 13)
"""Whether ``f_locals`` of a function writes to the frame itself; before that it is a copy that the frame keeps."""


def write_back(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Make ``values``, which are ``f_locals`` of a frame with what was assigned there, the frame's own.

    In the thread of the frame. What was deleted there stays. A debugger that has ``f_locals`` of the frame can assign there as before.
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
