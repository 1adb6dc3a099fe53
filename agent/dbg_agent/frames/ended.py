"""Threads ended by an exception, exceptions that threads are handling, and workers of pools that died.

A rank watches for them from its start, so this module imports little.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from dbg_agent.frames.stacks import is_own, is_users_file, place_of
from dbg_agent.process.imports import when_loaded

if TYPE_CHECKING:
    from types import ModuleType

    from dbg_wire.records.ranks import Place

MAX_ENDED = 8
"""Maximum number of ended threads, and of ended workers, that are remembered: the most recent ones."""

MAX_ERROR = 80
"""Maximum number of characters of an exception."""


class EndedThread(NamedTuple):
    """A thread that an exception ended.

    ``error`` is the exception, such as ``ValueError: broken shard``. ``pid`` is the process of the thread, ``at`` the
    monotonic time of its end.
    """

    name: str
    error: str
    place: Place | None
    pid: int
    at: float

    @property
    def seconds(self) -> float:
        """Number of seconds since the thread ended."""
        return time.monotonic() - self.at


class EndedWorker(NamedTuple):
    """A worker of a multiprocessing pool; its status is negative if a signal ended it."""

    pid: int
    name: str
    status: int


_threads: deque[EndedThread] = deque(maxlen=MAX_ENDED)
_workers: deque[tuple[int, EndedWorker]] = deque(maxlen=MAX_ENDED)
"""Workers of pools with a non-zero exit status, with the pid of the process that started them."""

_hook: Callable[[threading.ExceptHookArgs], object] | None = None
_former: Callable[[threading.ExceptHookArgs], object] = threading.excepthook
"""The excepthook of :mod:`threading` that this module's hook has replaced."""


def watch() -> None:
    """Record each thread that an exception ends, and each worker that fails, from now on. Repeated calls are no-ops."""
    global _hook, _former  # noqa: PLW0603 - one per process, as the hook itself
    when_loaded("multiprocessing.pool", _watch_pools)
    if _hook is None:
        _former = threading.excepthook
        threading.excepthook = _hook = _note


def unwatch() -> None:
    """Restore the previous hook, unless other code has replaced ours."""
    global _hook  # noqa: PLW0603
    if _hook is not None and threading.excepthook is _hook:
        threading.excepthook = _former
        _hook = None


def ended_threads() -> list[EndedThread]:
    """Return the threads of this process that an exception ended, oldest first. Any thread may call it."""
    # A forked child has a copy of its parent's records.
    return [one for one in tuple(_threads) if one.pid == os.getpid()]


def ended_workers() -> list[EndedWorker]:
    """Return the workers of pools that failed most recently. The pool itself forgets them and starts others."""
    return [one for pid, one in tuple(_workers) if pid == os.getpid()]


def handled_exception(ident: int) -> tuple[str, Place | None] | None:
    """Return the exception that a thread is handling and where the user's code raised it, or None.

    No code of the program runs, so the exception's message is only reported if it is a plain string.
    """
    from dbg_agent.frames.variables import is_a

    handled = sys._current_exceptions().get(ident)
    # Before Python 3.12 it is a tuple of class, exception and traceback.
    error: Any = handled[1] if type(handled) is tuple else handled
    return (_error_text(error), _raised_at(_traceback(error))) if is_a(error, BaseException) else None


def _error_text(error: object, *, is_inner: bool = False) -> str:
    """Return class and message of an exception, with the exception that it wraps, as a `URLError` does."""
    from dbg_agent.frames.variables import class_of, is_a

    arguments = _arguments(error)
    last = arguments[-1] if type(arguments) is tuple and 0 < len(arguments) < 3 else ""
    if is_a(last, BaseException):
        text = "" if is_inner else _error_text(last, is_inner=True)
    else:
        text = last[: 2 * MAX_ERROR] if type(last) is str else ""
        # gloo's messages start with the place in gloo's source, which is omitted.
        text = text.partition("] ")[2] if text.startswith(("[/", "[enforce fail at /")) else text
    return _in_one_line(class_of(error)[1], text)


def _in_one_line(kind: str, text: str) -> str:
    return " ".join(f"{kind}: {text}".removesuffix(": ").split())[:MAX_ERROR]


def _raised_at(traceback: TracebackType | None) -> Place | None:
    """Return the place in the user's code where an exception was raised; the frame may have moved on since."""
    found = None
    while traceback is not None:
        if not is_own(traceback.tb_frame) and is_users_file(traceback.tb_frame.f_code.co_filename):
            found = place_of(traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


_arguments: Callable[[Any], Any] = vars(BaseException)["args"].__get__
_traceback: Callable[[Any], Any] = vars(BaseException)["__traceback__"].__get__


def _note(args: threading.ExceptHookArgs) -> None:
    """Call the previous hook and record the thread. It is called in the thread that ends."""
    _former(args)
    with suppress(Exception):
        if args.exc_type is not SystemExit:
            name = args.thread.name if args.thread is not None else "unnamed"
            error = _in_one_line(args.exc_type.__name__, str(args.exc_value))
            place = _raised_at(args.exc_traceback)
            _threads.append(EndedThread(name, error, place, os.getpid(), time.monotonic()))


def _watch_pools(module: ModuleType) -> None:
    original = module.Pool._join_exited_workers
    if original.__module__ == __name__:
        return

    def join_exited_workers(pool: Any) -> Any:
        with suppress(Exception):
            ended = [one for one in pool if one.exitcode]
            _workers.extend((os.getpid(), EndedWorker(one.pid, one.name, one.exitcode)) for one in ended)
        return original(pool)

    module.Pool._join_exited_workers = staticmethod(join_exited_workers)
