"""Exceptions of the program's threads: those that have ended one, with the queues it used, those they handle or keep.

A signal that the main thread handles is told as well.

One that was caught and that no variable keeps leaves nothing behind. The garbage collector's list of all objects would
show those kept elsewhere, and takes 0.1 s per million of them, of which a program has several.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from dbg_agent.frames.stacks import is_own, is_users_file
from dbg_wire.errors import printable

MAX_ENDED = 8
"""Threads that are remembered, the last ones."""

MAX_FRAMES, MAX_VALUES = 20, 200
"""Frames of a traceback, and variables of one, that are looked at for queues."""

MAX_ARGUMENTS = 4
"""Arguments of a handler of signals: number and frame, perhaps behind an object and something bound."""

CO_VARARGS = 4
"""The flag of functions with ``*arguments``, as in :mod:`inspect`."""

MAX_NAME, MAX_ERROR = 60, 80
"""Characters of a thread's name and of its exception."""

_QUEUES = frozenset({("_queue", "SimpleQueue"), ("multiprocessing.queues", "Queue")})
"""Classes of queues, by module and name, apart from those derived from :class:`queue.Queue`."""


def duration(seconds: float) -> str:
    """Return seconds as ``41 min``."""
    whole = int(seconds)
    return next((f"{whole // unit} {name}" for unit, name in _UNITS if whole >= 2 * unit), f"{whole} s")


_UNITS = ((86400, "days"), (3600, "hours"), (60, "min"))


class EndedThread(NamedTuple):
    """A thread with what ended it, as in ``ended by ValueError: broken shard (data.py:12)``; ``pid`` is its process."""

    name: str
    how: str
    queues: tuple[weakref.ref[Any], ...]
    pid: int
    at: float

    @property
    def text(self) -> str:
        """Return what ended it, and when."""
        return f"{self.how} {duration(time.monotonic() - self.at)} ago"


_ended: deque[EndedThread] = deque(maxlen=MAX_ENDED)
_hook: Callable[[threading.ExceptHookArgs], object] | None = None
_former: Callable[[threading.ExceptHookArgs], object] = threading.excepthook
"""The hook that was there before ours."""


def watch() -> None:
    """Note each thread that ends by an exception from now on; a second call does nothing."""
    global _hook, _former  # noqa: PLW0603 - one per process, as the hook itself
    if _hook is None:
        _former = threading.excepthook
        threading.excepthook = _hook = _note


def unwatch() -> None:
    """Restore the former hook, unless other code has set its own since."""
    global _hook  # noqa: PLW0603
    if _hook is not None and threading.excepthook is _hook:
        threading.excepthook = _former
        _hook = None


def ended_threads() -> list[EndedThread]:
    """Return the threads of this process that an exception has ended, the oldest first; from any thread."""
    # A fork copies what the parent has noted of its own threads.
    return [one for one in tuple(_ended) if one.pid == os.getpid()]


def handled_exceptions() -> dict[int, str]:
    """Return the exception that each thread handles, by the thread's ident, as ``OSError: disk full (save.py:9)``.

    No code of the program runs: of its message only a plain text is told.
    """
    from dbg_agent.frames.variables import is_a

    return {
        ident: f"{_said(error)}{_raised_at(_traceback(error))}"
        for ident, error in _handled().items()
        if is_a(error, BaseException)
    }


def handled_signals(frames: Sequence[FrameType]) -> list[str]:
    """Return the signals whose handlers in Python run, innermost first: ``the signal SIGTERM in save (a.py:9)``.

    ``frames`` are those of the main thread, whose variables may be read. A handler has the interrupted frame.
    """
    from dbg_agent.evidence.stacks import file_line

    found = []
    for frame in frames:
        numbers = [one for one, behind in pairwise(_given(frame)) if behind is frame.f_back and type(one) is int]
        for number in numbers[:1]:
            name = next((one.name for one in signal.Signals if one == number), f"number {number}")
            handler = printable(frame.f_code.co_name[:MAX_NAME])
            found.append(f"the signal {name} in {handler} ({file_line(frame.f_code, frame.f_lineno)})")
    return found


def _given(frame: FrameType) -> list[Any]:
    """Return the arguments of a function of the user that takes few, as a handler of signals does."""
    from dbg_agent.frames.variables import local

    code = frame.f_code
    if code.co_argcount > MAX_ARGUMENTS or frame.f_back is None or not is_users_file(code.co_filename):
        return []
    given = [local(frame, name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & CO_VARARGS:
        rest = local(frame, code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        given += rest[:MAX_ARGUMENTS] if type(rest) is tuple else ()
    return given


def kept_exceptions(frames: Sequence[FrameType]) -> Iterator[str]:
    """Yield the exceptions that variables keep, and attributes of ``self``: ``OSError: full (save.py:9) in error``.

    ``frames`` are those of one thread, whose variables may be read.
    """
    from dbg_agent.frames.variables import attributes, is_a, read_locals

    seen = {id(error) for error in _handled().values()}
    for frame in frames:
        own = read_locals(frame)
        of_self = attributes(own["self"]) if "self" in own else {}
        values = [*own.items(), *((f"self.{name}", value) for name, value in list(of_self.items())[:MAX_VALUES])]
        for name, value in values[: 2 * MAX_VALUES]:
            if is_a(value, BaseException) and id(value) not in seen:
                seen.add(id(value))
                yield f"{_said(value)}{_raised_at(_traceback(value))} in {printable(str(name)[:MAX_NAME])}"


def _handled() -> dict[int, object]:
    # Before Python 3.12 it is a tuple with class and traceback.
    return {ident: one[1] if type(one) is tuple else one for ident, one in sys._current_exceptions().items()}


def _said(error: object, *, is_inner: bool = False) -> str:
    """Return class and message of an exception, or of the one that is its only argument, as of a `URLError`."""
    from dbg_agent.frames.variables import class_of, is_a

    arguments = _arguments(error)
    last = arguments[-1] if type(arguments) is tuple and 0 < len(arguments) < 3 else ""
    if is_a(last, BaseException):
        text = "" if is_inner else _said(last, is_inner=True)
    else:
        text = last[: 2 * MAX_ERROR] if type(last) is str else ""
        # What gloo says stands behind the place in its own source.
        text = text.partition("] ")[2] if text.startswith(("[/", "[enforce fail at /")) else text
    return printable(" ".join(f"{class_of(error)[1]}: {text}".removesuffix(": ").split()))[:MAX_ERROR]


def _raised_at(traceback: TracebackType | None) -> str:
    """Return `` (save.py:9)``, where the user's own code raised it; its frame may be elsewhere by now."""
    from dbg_agent.evidence.stacks import file_line

    found = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_own(traceback.tb_frame) and is_users_file(code.co_filename):
            found = f" ({file_line(code, traceback.tb_lineno)})"
        traceback = traceback.tb_next
    return found


_arguments: Callable[[Any], Any] = vars(BaseException)["args"].__get__
_traceback: Callable[[Any], Any] = vars(BaseException)["__traceback__"].__get__


def who_used(queue: object) -> str:
    """Return `` of thread NAME, which ended by ERROR``; empty if no thread that has ended used it."""
    for one in ended_threads():
        if any(reference() is queue for reference in one.queues):
            return f" of thread {one.name}, which {one.text}"
    return ""


def _note(args: threading.ExceptHookArgs) -> None:
    """Call the former hook, and note the thread; in the thread that ends."""
    _former(args)
    with suppress(Exception):
        if args.exc_type is not SystemExit:
            # Every rank watches, and hardly any needs this.
            from dbg_agent.evidence.stacks import short_place

            frames = list(_frames(args.exc_traceback))
            name = args.thread.name if args.thread is not None else "unnamed"
            error = printable(" ".join(f"{args.exc_type.__name__}: {args.exc_value}".removesuffix(": ").split()))
            place = f" ({short_place(frames)})" if frames else ""
            text = f"ended by {error[:MAX_ERROR]}{place}"
            _ended.append(
                EndedThread(printable(name[:MAX_NAME]), text, tuple(_queues(frames)), os.getpid(), time.monotonic())
            )


def _frames(traceback: TracebackType | None) -> Iterator[FrameType]:
    """Yield the frames of a traceback, the innermost first."""
    found: deque[FrameType] = deque(maxlen=MAX_FRAMES)
    while traceback is not None:
        if not is_own(traceback.tb_frame):
            found.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return reversed(found)


def _queues(frames: list[FrameType]) -> Iterator[weakref.ref[Any]]:
    """Yield the queues among the variables of frames, and among the attributes of their objects."""
    from dbg_agent.frames.variables import attributes, read_locals

    for frame in frames:
        own = list(read_locals(frame).values())[:MAX_VALUES]
        own += [frame.f_globals[name] for name in frame.f_code.co_names[:MAX_VALUES] if name in frame.f_globals]
        own += [value for one in own[:MAX_VALUES] for value in list(attributes(one).values())[:MAX_VALUES]]
        for value in own:
            if _is_queue(value):
                with suppress(TypeError):
                    yield weakref.ref(value)


def _is_queue(value: object) -> bool:
    import queue

    from dbg_agent.frames.variables import class_of, is_a

    return is_a(value, queue.Queue) or class_of(value) in _QUEUES
