"""Where threads of the program are: stacks without our own frames."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from operator import methodcaller
from types import FrameType, TracebackType

from dbg_wire.limits import MAX_STACK_BYTES, MAX_STACK_FRAMES
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import fitted, size_of

LOOK_MAY_LOCK_UP = (3, 11) <= sys.version_info < (3, 11, 12)
"""Whether ``sys._current_frames`` may stop the whole process for ever (CPython issue 106883). In these releases a
garbage collection may begin inside it, while it keeps the interpreter's list of threads locked. If the collection runs
Python code, a thread that starts or ends just then waits for the list and keeps the interpreter's lock (GIL)."""

_call = methodcaller("__call__")


def all_frames() -> dict[int, FrameType]:
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


OWN_PACKAGES = ("dbg_agent", "dbg_dial", "dbg_wire")
"""Packages whose frames are never part of the program's stack."""

RUNNERS = (
    "dbg_agent.program.script",
    "dbg_agent.__main__",
    "dbg_agent.when_imported",
    "dbg_agent.waiting.group_timeouts",
)
"""Modules of ours that call the program's code and hold no lock then: a script, an import, the making of a group."""

OWN_MAIN = os.path.join(os.path.dirname(os.path.dirname(__file__)), "__main__.py")  # noqa: PTH118, PTH120 - no pathlib in a rank
"""The file that `python -m dbg_agent` runs, as ``__main__``."""

OUTERMOST_KEPT = 64
"""Frames kept at the outer end of a stack that is too deep; the rest is kept at the inner end, which tells more."""


def is_own(frame: FrameType) -> bool:
    """Tell whether a frame is ours."""
    module = frame.f_globals.get("__name__")
    return (isinstance(module, str) and module.partition(".")[0] in OWN_PACKAGES) or _is_main(frame)


def is_runner(frame: FrameType) -> bool:
    """Tell whether a frame is of a module in RUNNERS: it calls the program's code and holds no lock then."""
    return frame.f_globals.get("__name__") in RUNNERS or _is_main(frame)


def _is_main(frame: FrameType) -> bool:
    return frame.f_code.co_filename == OWN_MAIN


def skip_runner(frames: Sequence[FrameType]) -> int:
    """Return how many of the frames, outermost first, only run the program: Python's and ours, before its first one."""
    for number, frame in enumerate(frames):
        if not (is_own(frame) or frame.f_globals.get("__name__") == "runpy"):
            return number
    return 0


def place_of(frame: FrameType, line: int | None = None) -> Place:
    """Return where a frame is, or was if it is at another line than this one by now."""
    line = frame.f_lineno if line is None else line
    return fitted(Place, file=frame.f_code.co_filename, line=line or 0, function=frame.f_code.co_name)


def stack_of(frame: FrameType | None, most: int = MAX_STACK_FRAMES) -> tuple[Place, ...]:
    """Return the places from the outermost frame to this one, without our frames and the middle of a deep stack."""
    return bounded_stack(whole_stack(frame), most)


def whole_stack(frame: FrameType | None) -> tuple[Place, ...]:
    """Return all places from the outermost frame to this one, without our frames."""
    frames = []
    # Outside of our runner, as of any script, are only the frames by which Python runs a module.
    while frame is not None and not _is_main(frame):
        frames.append(frame)
        frame = frame.f_back
    frames.reverse()
    return tuple(place_of(frame) for frame in frames[skip_runner(frames) :] if not is_own(frame))


def traceback_of(traceback: TracebackType | None) -> tuple[Place, ...]:
    """Return the places of a traceback, outermost first."""
    steps = []
    while traceback is not None:
        steps.append(traceback)
        traceback = traceback.tb_next
    skipped = skip_runner([step.tb_frame for step in steps])
    return bounded_stack(
        tuple(place_of(step.tb_frame, step.tb_lineno) for step in steps[skipped:] if not is_own(step.tb_frame))
    )


def thread_frame(thread: int | None) -> FrameType | None:
    """Return the innermost frame of a thread that is not ours; None if there is none."""
    frame = all_frames().get(thread or 0)
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return frame


def bounded_stack(places: tuple[Place, ...], most: int = MAX_STACK_FRAMES) -> tuple[Place, ...]:
    """Return a stack of at most so many places and MAX_STACK_BYTES.

    The middle of a larger one is left out, which one place tells.
    """
    stack = _outer_and_inner(places, most)
    while len(stack) > 1 and bytes_of(stack) > MAX_STACK_BYTES:
        most = min(most, len(stack)) * 3 // 4
        stack = _outer_and_inner(places, most)
    return stack


def bytes_of(stack: tuple[Place, ...]) -> int:
    """Return at most how many bytes a stack has in a message."""
    # A character has six at most, if it is escaped. Of nearly all stacks that is enough to know.
    atmost = 6 * sum(len(place.file) + len(place.function) for place in stack) + 60 * len(stack)
    return atmost if atmost <= MAX_STACK_BYTES else sum(size_of(place) + 1 for place in stack)


def _outer_and_inner(places: tuple[Place, ...], most: int) -> tuple[Place, ...]:
    left_out = len(places) - most
    if left_out <= 0:
        return places
    outer = min(OUTERMOST_KEPT, most // 4)
    note = fitted(Place, file="", line=0, function=f"[{left_out + 1} frames left out]")
    return (*places[:outer], note, *places[outer + left_out + 1 :])
