"""Frames and stacks of the program's threads, without the agent's own frames, and selection of the user's frame.

A hanging rank waits inside a library, but the user asks for variables of the program.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from operator import methodcaller
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple

from dbg_wire.limits import MAX_STACK_BYTES, MAX_STACK_FRAMES, MAX_THREAD_FRAMES, MAX_THREADS, MAX_THREADS_BYTES
from dbg_wire.records.ranks import Place, ThreadStack
from dbg_wire.records.record import clamp, size_of

LOOK_MAY_LOCK_UP = (3, 11) <= sys.version_info < (3, 11, 12)
"""Whether ``sys._current_frames`` may deadlock the whole process (CPython issue 106883). In these releases a garbage
collection may start inside the function, which then holds the lock of the interpreter's thread list. If the collection
runs Python code, a thread that starts or ends at that time waits for the lock and does not release the GIL."""

call_it = methodcaller("__call__")
"""Calls its argument from C code. With it, `map` calls several C functions without letting another thread run."""

OWN_PACKAGES = ("dbg_agent", "dbg_dial", "dbg_wire")
"""Packages whose frames are never part of the program's stack."""

RUNNERS = (
    "dbg_agent.program.script",
    "dbg_agent.program.stock_calls",
    "dbg_agent.__main__",
    "dbg_agent.process.imports",
    "dbg_agent.torch.group_timeouts",
)
"""Modules of the agent that call the program's code without holding a lock: to run a script, an import, or the creation
of a group."""

LOCKLESS = (
    *RUNNERS,
    "dbg_agent.breakpoints.conditional_stop",
    *(f"dbg_agent.debuggers.{name}" for name in ("engine", "faults", "pdb", "pudb", "pudb_import", "screen")),
    "dbg_agent.questions.evaluate",
    "dbg_agent.questions.passing_pdb",
    "dbg_agent.frames.capture",
    "dbg_agent.values",
)
"""Modules and packages that hold no lock of the agent while they call the program's code. In addition to RUNNERS, these
include debuggers, and the code that answers questions."""

REDIRECTED = "_dbg_agent_redirected"
"""Name of the code objects with which the agent replaces the code of stock debuggers' functions."""

OUTERMOST_KEPT = 64
"""Maximum number of frames kept at the outer end of a truncated stack. The others are kept at the inner end, which is
more useful."""

MAX_NAME = 200
"""Maximum number of characters of a thread's name."""

OWN_NAMES = "dbg-agent"
"""Prefix of the names of the agent's threads. Frames don't suffice to recognise a thread that has just started."""

UNNAMED = "unnamed"
"""Name shown for a thread that C code created and that Python does not know."""

MAX_NAMED = 6
"""Maximum number of functions in an error message: the innermost ones, because users mostly want one of these."""

STACK_FRAMES = 100
"""Depth of calls that the start of a stop needs, including imports at the first use. With less stack, the start could
fail halfway."""

DEBUGGER_FRAMES = 250
"""Depth of calls that debuggers and questions need: urwid nests 100 calls to draw PuDB, and nearly as many when it is
imported."""

_LOCKLESS_PREFIXES = tuple(f"{name}." for name in LOCKLESS)

_INSTALLED = ("site-packages", "dist-packages")

_TYPED = ("<string>", "<stdin>", "<console>", "<ipython-input", "<python-input")
"""Prefixes of the file names of code from ``python -c`` or from a prompt."""


def all_frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread, by the thread's ident in :mod:`threading`.

    Garbage collection is off during the call in those releases of Python where it could deadlock.
    """
    if not LOOK_MAY_LOCK_UP or not gc.isenabled():
        return sys._current_frames()
    frames: dict[int, FrameType]
    try:
        # C code makes these four calls, so no other thread runs between them. The last call enables collection. If
        # another thread disabled collection just before the first call, the code below disables it again.
        is_on, _, frames, _ = tuple(map(call_it, (gc.isenabled, gc.disable, sys._current_frames, gc.enable)))
    except BaseException:
        gc.enable()
        raise
    if not is_on:
        gc.disable()
    return frames


OWN_MAIN = os.path.join(os.path.dirname(os.path.dirname(__file__)), "__main__.py")  # noqa: PTH118, PTH120 - no pathlib in a rank
"""The file that `python -m dbg_agent` runs, as ``__main__``."""


def is_own(frame: FrameType) -> bool:
    """Return True if the frame belongs to the agent."""
    module = frame.f_globals.get("__name__")
    return (isinstance(module, str) and module.partition(".")[0] in OWN_PACKAGES) or _is_main(frame)


def is_runner(frame: FrameType) -> bool:
    """Return True if the frame belongs to a module in RUNNERS, which calls the program's code without a lock."""
    return frame.f_globals.get("__name__") in RUNNERS or _is_main(frame)


def _is_main(frame: FrameType) -> bool:
    return frame.f_code.co_filename == OWN_MAIN


def outward(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frame, its caller, and so on to the outermost frame of the thread."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_under_ours(frame: FrameType, until: int | None = None) -> bool:
    """Return True if the agent's code called the frame. The walk ends before the frame with the id ``until``."""
    walk: FrameType | None = frame
    # Not with the generator outward(), which would be slower: a traced thread runs this code at each call.
    while walk is not None and id(walk) != until:
        if is_own(walk) and not is_runner(walk):
            return True
        walk = walk.f_back
    return False


def holds_no_lock(frame: FrameType) -> bool:
    """Return True if this thread holds no lock of the agent, so that an exception may be raised in it.

    The innermost frame of the agent on this stack must be in one of the modules LOCKLESS. contextlib must not be
    running, because it may be about to enter or leave a lock.
    """
    if frame.f_globals.get("__name__") == "contextlib":
        return False
    ours = next(filter(is_own, outward(frame)), None)
    return ours is None or f"{ours.f_globals['__name__']}.".startswith(_LOCKLESS_PREFIXES) or _is_main(ours)


def is_traced_by_us(frame: FrameType) -> bool:
    """Return True if a debugger of the agent traces the frame, and so the functions that it calls."""
    # Compare the module's name, because a rank that has never opened a debugger has not loaded its class.
    return type(getattr(frame.f_trace, "__self__", None)).__module__.startswith("dbg_agent.debuggers.")


def is_split(frame: FrameType) -> bool:
    """Return True if torch.compile has split this function at a call and runs the rest as a separate function."""
    return any(name.startswith("__resume_at_") for name in frame.f_code.co_names)


def is_redirected(frame: FrameType) -> bool:
    """Return True if the frame's function belongs to a stock debugger and the agent has replaced its code."""
    return frame.f_code.co_name == REDIRECTED


def is_resumed_part(frame: FrameType) -> bool:
    """Return True if the frame's function is the rest of a function that torch.compile has split."""
    return frame.f_code.co_name.startswith("torch_dynamo_resume_in_")


def skip_runner(frames: Sequence[FrameType]) -> int:
    """Return the number of frames of runpy and the agent at the start of ``frames``, which are outermost first."""
    for number, frame in enumerate(frames):
        if not (is_own(frame) or frame.f_globals.get("__name__") == "runpy"):
            return number
    return 0


def place_of(frame: FrameType, line: int | None = None) -> Place:
    """Return the place of the frame at its current line, or at ``line`` if the frame has since moved on."""
    line = frame.f_lineno if line is None else line
    return clamp(Place, file=frame.f_code.co_filename, line=line or 0, function=frame.f_code.co_name)


def stack_of(frame: FrameType | None, most: int = MAX_STACK_FRAMES) -> tuple[Place, ...]:
    """Return the places from the outermost frame to this one, without the agent's frames; truncate a deep stack."""
    return bounded_stack(whole_stack(frame), most)


def whole_stack(frame: FrameType | None) -> tuple[Place, ...]:
    """Return all places from the outermost frame to this one, without the agent's frames."""
    # The walk ends at the main module of `python -m dbg_agent`, because its callers are only frames of runpy.
    frames = list(takewhile(lambda one: not _is_main(one), outward(frame)))[::-1]
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
    """Return the thread's innermost frame that does not belong to the agent, or None."""
    return next((frame for frame in outward(all_frames().get(thread or 0)) if not is_own(frame)), None)


def bounded_stack(places: tuple[Place, ...], most: int = MAX_STACK_FRAMES) -> tuple[Place, ...]:
    """Limit a stack to ``most`` places and MAX_STACK_BYTES.

    In a larger stack, one place, which shows the number of omitted frames, replaces the middle.
    """
    stack = _outer_and_inner(places, most)
    while len(stack) > 1 and bytes_of(stack) > MAX_STACK_BYTES:
        most = min(most, len(stack)) * 3 // 4
        stack = _outer_and_inner(places, most)
    return stack


def bytes_of(stack: tuple[Place, ...]) -> int:
    """Return an upper bound for the size of a stack in a message, in bytes."""
    # An escaped character has at most six bytes. For nearly all stacks this estimate is enough.
    atmost = 6 * sum(len(place.file) + len(place.function) for place in stack) + 60 * len(stack)
    return atmost if atmost <= MAX_STACK_BYTES else sum(size_of(place) + 1 for place in stack)


def _outer_and_inner(places: tuple[Place, ...], most: int) -> tuple[Place, ...]:
    left_out = len(places) - most
    if left_out <= 0:
        return places
    outer = min(OUTERMOST_KEPT, most // 4)
    note = clamp(Place, file="", line=0, function=f"[{left_out + 1} frames left out]")
    return (*places[:outer], note, *places[outer + left_out + 1 :])


def thread_stacks(halted: int | None, stack: tuple[Place, ...]) -> tuple[ThreadStack, ...]:
    """Return the stacks of the threads, the program's thread first; ``stack`` belongs to the stopped thread ``halted``.

    If they exceed MAX_THREADS_BYTES together, the deepest stacks are truncated in the middle.
    """
    threads = program_threads(halted)
    whole = [stack if thread.ident == halted else whole_stack(thread.frame) for thread in threads]
    most = MAX_THREAD_FRAMES
    stacks = [bounded_stack(one, most) for one in whole]
    while most > 1 and sum(map(bytes_of, stacks)) > MAX_THREADS_BYTES:
        most = most * 3 // 4
        stacks = [bounded_stack(one, most) for one in whole]
    return tuple(
        clamp(ThreadStack, name=thread.name[:MAX_NAME], frames=frames, halted=thread.ident == halted)
        for thread, frames in zip(threads, stacks, strict=True)
    )


class ProgramThread(NamedTuple):
    """One thread and its innermost frame; ``object`` is its Thread object, None if :mod:`threading` has none."""

    ident: int
    name: str
    frame: FrameType
    object: Any


_TRAINING_THREAD = "TrainingThread"
"""Prefix of the name of the thread that runs the training function of Ray Train."""


def is_in(frame: FrameType | None, file: str, function: str) -> bool:
    """Return True if the frame runs this function in a file whose path ends with ``file``."""
    return frame is not None and frame.f_code.co_name == function and frame.f_code.co_filename.endswith(file)


def program_thread() -> int:
    """Return the ident of the thread that runs the program: the main thread unless it runs a Ray actor's main loop."""
    main, frames = threading.main_thread().ident or 0, all_frames()
    if not is_in(frames.get(main), "/ray/_private/worker.py", "main_loop"):
        return main
    known = dict(getattr(threading, "_active", {}))
    others = [
        ident
        for ident, frame in frames.items()
        if not _is_own_thread(known.get(ident), frame)
        and any(is_users_file(one.f_code.co_filename) for one in outward(frame))
    ]
    return min(others, key=lambda one: not _name(known.get(one)).startswith(_TRAINING_THREAD), default=main)


def program_threads(halted: int | None) -> list[ProgramThread]:
    """Return at most MAX_THREADS threads: the program's thread first, then the thread ``halted``."""
    main = program_thread()
    frames = all_frames()
    # Not `threading.enumerate`, because it takes a lock that a stopped thread may hold.
    known = dict(getattr(threading, "_active", {}))
    idents = [ident for ident in frames if ident == main or not _is_own_thread(known.get(ident), frames[ident])]
    idents.sort(key=lambda ident: (ident != main, ident != halted))
    return [
        ProgramThread(ident, _name(known.get(ident)), frames[ident], known.get(ident)) for ident in idents[:MAX_THREADS]
    ]


def _name(thread: Any) -> str:
    name = getattr(thread, "_name", None)
    return name if isinstance(name, str) and name else UNNAMED


def _is_own_thread(thread: Any, frame: FrameType) -> bool:
    """Return True if the thread is the agent's, by its name or its outermost frame outside :mod:`threading`."""
    if _name(thread).startswith(OWN_NAMES):
        return True
    outermost = [one for one in outward(frame) if one.f_globals.get("__name__") != "threading"][-1:]
    return bool(outermost) and is_own(outermost[0])


FrameAt = tuple[FrameType, int]
"""A frame and a line in it, as in :mod:`bdb`. In a traceback this is the line where the exception left the frame."""


_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")
_STDLIB = os.path.dirname(os.__file__)  # noqa: PTH120 - no pathlib in a rank
_STDLIBS = tuple({os.path.join(folder, "") for folder in (_STDLIB, os.path.realpath(_STDLIB))})  # noqa: PTH118


class NoSuchFrame(Exception):
    """Raised when the stack does not have the requested frame. The message names some of its functions."""


@lru_cache(4096)
def is_users_file(path: str) -> bool:
    """Return True if the file is the user's: not in the standard library nor in an installed package.

    The path is not resolved, because its file system may hang.
    """
    return not (path.startswith(("<", *_STDLIBS)) or any(part in _INSTALLED for part in path.split("/")))


def frames_of(frame: FrameType | None) -> list[FrameAt]:
    """Return the program's frames from the outermost frame to this one."""
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
    """Return the innermost frame of the user's code, else the innermost frame; None if there are no frames.

    Code without a file is only used if no frame has a file of the user, because libraries create such code, too.
    """
    typed: FrameAt | None = None
    for at in reversed(frames):
        path = at[0].f_code.co_filename
        if is_users_file(path):
            return at
        if typed is None and path.startswith(_TYPED):
            typed = at
    return typed or (frames[-1] if frames else None)


def find_frame(frames: Sequence[FrameAt], selector: str) -> FrameAt:
    """Return the frame that the user requests: a function's innermost frame, or the frame at a Python index.

    Raise NoSuchFrame, which names the functions in the stack.
    """
    if _NUMBER.fullmatch(selector):
        if -len(frames) <= int(selector) < len(frames):
            return frames[int(selector)]
        count = f"{len(frames)} frame" if len(frames) == 1 else f"{len(frames)} frames"
        raise NoSuchFrame(f"there is no frame {selector}: the stack has {count}; innermost first: {_names(frames)}")
    for at in reversed(frames):
        if selector in (at[0].f_code.co_name, at[0].f_code.co_qualname):
            return at
    raise NoSuchFrame(f"the stack has no frame of {selector}; innermost first: {_names(frames)}")


def _names(frames: Sequence[FrameAt]) -> str:
    names = list(dict.fromkeys(frame.f_code.co_qualname for frame, _ in reversed(frames)))
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def is_at_end(frame: FrameType) -> bool:
    """Return True if the main thread runs an excepthook or code after the program's end. Call it in that thread."""
    if sys.is_finalizing() or not threading.main_thread().is_alive():
        # threading marks the main thread as ended before the atexit callbacks run.
        return True
    ending = _ending_codes()
    return any(one.f_code in ending for one in outward(frame))


def _ending_codes() -> set[CodeType]:
    """Return the code of the functions that run at the end of the interpreter or of a multiprocessing child."""
    # Looked up, not imported: the module is only loaded if the program uses it.
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


# ------------------------------------------------------------------ stack headroom for a stop


def has_room(frames: int = STACK_FRAMES) -> bool:
    """Return True if the calling thread may nest ``frames`` more calls."""
    try:
        sys._getframe(max(sys.getrecursionlimit() - frames, 0))
    except ValueError:
        return True
    return False


def reports_no_room(failed: Callable[[Exception], object], frames: int = STACK_FRAMES) -> bool:
    """Return True, and report the error to ``failed``, if the calling thread can't nest ``frames`` more calls."""
    if has_room(frames):
        return False
    try:  # noqa: SIM105 - contextlib would need the stack that is missing
        failed(RecursionError("too close to the recursion limit"))
    except RecursionError:
        pass
    return True
