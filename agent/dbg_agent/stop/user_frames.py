"""Which frame of a stack a question is about: the innermost one of the user's own code, or the one that is asked for.

A rank that hangs waits inside of a library, and its user asks for the variables of the program.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType, FrameType, TracebackType

from dbg_agent.stop.stacks import is_own, outward, skip_runner

FrameAt = tuple[FrameType, int]
"""A frame and the line at which it is, as :mod:`bdb` has them: a traceback's frames may have moved on since."""

MAX_NAMED = 6
"""Functions that an error names: the innermost ones, among which the wanted one mostly is."""

_INSTALLED = ("site-packages", "dist-packages")
_TYPED = ("<string>", "<stdin>", "<console>", "<ipython-input", "<python-input")
"""Names of code without a file: given by ``python -c``, or typed at a prompt."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")
_STDLIB = os.path.dirname(os.__file__)  # noqa: PTH120 - no pathlib in a rank
_STDLIBS = tuple({os.path.join(folder, "") for folder in (_STDLIB, os.path.realpath(_STDLIB))})  # noqa: PTH118


class NoSuchFrame(Exception):
    """A frame that the stack doesn't have; the text names some that it has."""


@lru_cache(4096)
def is_users_file(path: str) -> bool:
    """Tell whether a code's file is the user's: neither of the standard library nor of an installed package.

    The path is taken as it stands, since the file may be on a file system that hangs.
    """
    return not (path.startswith(("<", *_STDLIBS)) or any(part in _INSTALLED for part in path.split("/")))


def frames_of(frame: FrameType | None) -> list[FrameAt]:
    """Return the program's frames from the outermost one to this one."""
    return _of_program([(one, one.f_lineno or 0) for one in outward(frame)][::-1])


def frames_of_traceback(traceback: TracebackType | None) -> list[FrameAt]:
    """Return the program's frames of a traceback, outermost first, at the lines where the exception left them."""
    frames: list[FrameAt] = []
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lineno or 0))
        traceback = traceback.tb_next
    return _of_program(frames)


def _of_program(frames: list[FrameAt]) -> list[FrameAt]:
    skipped = skip_runner([frame for frame, _ in frames])
    return [at for at in frames[skipped:] if not is_own(at[0])] or frames


def users_frame(frames: Sequence[FrameAt]) -> FrameAt | None:
    """Return the innermost frame of the user's own code, the innermost of all if none is; None of no frames.

    Code without a file counts as the user's only if there is no other: libraries make such code, too.
    """
    typed: FrameAt | None = None
    for at in reversed(frames):
        path = at[0].f_code.co_filename
        if is_users_file(path):
            return at
        if typed is None and path.startswith(_TYPED):
            typed = at
    return typed or (frames[-1] if frames else None)


def find_frame(frames: Sequence[FrameAt], wanted: str) -> FrameAt:
    """Return the frame that the user asks for: a function's innermost one, or a number as Python indexes the frames.

    Raise NoSuchFrame, with the functions that there are.
    """
    if _NUMBER.fullmatch(wanted):
        if -len(frames) <= int(wanted) < len(frames):
            return frames[int(wanted)]
        count = f"{len(frames)} frame" if len(frames) == 1 else f"{len(frames)} frames"
        raise NoSuchFrame(f"there is no frame {wanted}; the stack has {count}, innermost first {_names(frames)}")
    for at in reversed(frames):
        if wanted in (at[0].f_code.co_name, _qualified(at[0])):
            return at
    raise NoSuchFrame(f"there is no frame of {wanted}; the stack has, innermost first, {_names(frames)}")


def _qualified(frame: FrameType) -> str:
    """Return the name of a frame's function with its class; without the class before Python 3.11."""
    name: str = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
    return name


def _names(frames: Sequence[FrameAt]) -> str:
    names = list(dict.fromkeys(_qualified(frame) for frame, _ in reversed(frames)))
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def is_at_end(frame: FrameType) -> bool:
    """Tell whether a frame of the main thread runs below an excepthook or after the program; in that thread."""
    if sys.is_finalizing() or not threading.main_thread().is_alive():
        # The callbacks of atexit run after threading has counted the main thread as ended.
        return True
    ending = _ending_codes()
    return any(one.f_code in ending for one in outward(frame))


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
