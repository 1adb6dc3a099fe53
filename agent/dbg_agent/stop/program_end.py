"""Whether a frame is part of a program's end: its excepthook, its last callbacks, the interpreter's shutdown."""

from __future__ import annotations

import sys
import threading
from types import CodeType, FrameType


def is_at_end(frame: FrameType) -> bool:
    """Tell whether a frame of the main thread runs below an excepthook or after the program; in that thread."""
    if sys.is_finalizing() or not threading.main_thread().is_alive():
        # The callbacks of atexit run after threading has counted the main thread as ended.
        return True
    ending = _ending_codes()
    walk: FrameType | None = frame
    while walk is not None:
        if walk.f_code in ending:
            return True
        walk = walk.f_back
    return False


def _ending_codes() -> set[CodeType]:
    """Return the code of the functions that the interpreter, and a child of multiprocessing, call at the end."""
    # The module is loaded only if the program uses it.
    processes = sys.modules.get("multiprocessing.util")
    functions = (sys.excepthook, getattr(threading, "_shutdown", None), getattr(processes, "_exit_function", None))
    return {code for code in map(_code_of, functions) if code is not None}


def _code_of(function: object) -> CodeType | None:
    """Return the code that runs first when the function is called; None if it is not Python code."""
    # A functools.partial has `func`, a bound method `__func__`.
    function = getattr(function, "func", function)
    function = getattr(function, "__func__", function)
    if not hasattr(function, "__code__"):
        function = vars(type(function)).get("__call__")
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
