"""One rank for a process: the bodies of the public functions, and what happens at a fork and at the end.

Everything that the program calls goes through here, and nothing of ours comes out but what it asked for.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType

from dbg_wire.errors import DbgError, printable

from .identity import Identity, is_launcher
from .inbox import ProgramRaised
from .rank import MAX_WARNINGS, Rank, say
from .settings import Settings, read_settings

STACK_FRAMES = 100
"""Calls that a stop needs below it, imports at its first use included; without them it could break off anywhere."""

_lock = threading.Lock()
_rank: Rank | None = None
_defaults: dict[str, object] = {}
_former_hook: Callable[..., object] | None = None
_hooks_registered = False
_missing_told = False
_forked_from: Identity | None = None
_told: set[str] = set()
_abandoned: list[Rank] = []
"""Ranks of the process that this one was forked from. They are kept: collecting them would close their connection's
objects here, with warnings, while the parent still uses them."""


def stop_at(frame: FrameType, arguments: Mapping[str, object], unexpected: tuple[object, ...]) -> None:
    """Be the body of ``set_trace``."""
    try:
        tracer = sys.gettrace()
        # As in Rank.stop: nothing in here is worth a step.
        sys.settrace(None)
        try:
            settings = _settings("set_trace", arguments, unexpected)
            rank = _connected_rank(settings)
            if rank is not None and settings.rc:
                rank.reads_rc = True
        finally:
            sys.settrace(tracer)
        if rank is not None:
            rank.stop(frame, "breakpoint", settings.engine)
        return
    except ProgramRaised as raised:
        to_raise: BaseException = raised.error
    except _AskedForError as asked:
        to_raise = asked.problem
    except Exception as error:
        # The first promise: nothing of ours ends a training job.
        _warn(f"set_trace failed ({type(error).__name__}: {printable(str(error))}); going on without a debugger")
        return
    # Out here, so that it keeps the cause and context it came with.
    raise to_raise


def has_room(frames: int = STACK_FRAMES) -> bool:
    """Return True, or raise RecursionError if so many calls would be too many."""
    return frames == 0 or has_room(frames - 1)


class _AskedForError(Exception):
    """Carry an error that the program asked for by ``on_missing="raise"``."""

    def __init__(self, problem: DbgError) -> None:
        super().__init__(problem)
        self.problem = problem


def _connected_rank(settings: Settings) -> Rank | None:
    """Return this rank once the broker knows it; None, having said why, if it goes on without."""
    rank = _this_rank(settings)
    if rank is None:
        return None
    problem = rank.connect(settings)
    if problem is None:
        return rank
    if settings.on_missing == "raise":
        raise _AskedForError(problem)
    _warn_of_missing(rank, problem)
    return None


def install_here(arguments: Mapping[str, object], unexpected: tuple[object, ...]) -> None:
    """Be the body of ``install``."""
    global _former_hook  # noqa: PLW0603 - one per process, as the hook itself
    try:
        settings = _settings("install", arguments, unexpected)
        _defaults.update({name: value for name, value in arguments.items() if value is not None})
        rank = _this_rank(settings)
        if rank is None:
            return
        rank.link.start()
        rank.link.call_later(settings.connect_timeout, lambda: _warn_if_alone(rank))
        if settings.breakpoint and _former_hook is None:
            from . import set_trace

            _former_hook = sys.breakpointhook
            sys.breakpointhook = set_trace
        if settings.classic:
            from .classic import redirect

            redirect()
    except Exception as error:
        _warn(f"install failed ({type(error).__name__}: {printable(str(error))}); going on without a debugger")


def uninstall_here() -> None:
    """Be the body of ``uninstall``."""
    global _former_hook
    if _former_hook is not None:
        sys.breakpointhook, _former_hook = _former_hook, None
    # Not loaded unless it was asked for.
    classic = sys.modules.get(f"{__package__}.classic")
    if classic is not None:
        classic.restore()


def note_exit(status: int) -> None:
    """Have the goodbye say with which status the process ends."""
    if _rank is not None:
        _rank.exit_status = status


def _warn_if_alone(rank: Rank) -> None:
    problem = rank.link.wait_connected(0.0)
    if problem is not None:
        _warn_of_missing(rank, problem)


def _warn_of_missing(rank: Rank, problem: DbgError) -> None:
    """Say once in a process that it goes on without a broker, whichever call noticed it first."""
    global _missing_told  # noqa: PLW0603 - one per process
    if not _missing_told:
        _missing_told = True
        rank.warn(f"{problem}; going on without a debugger")


def _settings(function: str, arguments: Mapping[str, object], unexpected: tuple[object, ...]) -> Settings:
    given = {name: value for name, value in arguments.items() if value is not None or name not in _defaults}
    return read_settings(function, {**_defaults, **given}, unexpected, os.environ, _warn)


def _warn(text: str) -> None:
    """Write one line to stderr, once in a process, whether it is a rank yet or never."""
    if text in _told or len(_told) >= MAX_WARNINGS:
        return
    _told.add(text)
    if _rank is not None:
        _rank.warn(text)
    else:
        say(text)


def _this_rank(settings: Settings) -> Rank | None:
    """Return the rank that this process is, or None if it is a launcher, which never is one."""
    global _rank, _hooks_registered  # noqa: PLW0603
    with _lock:
        if _rank is None:
            module = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None)
            if is_launcher(sys.argv, module, os.environ):
                return None
            _rank = Rank(settings, _forked_from)
            if not _hooks_registered:
                _hooks_registered = True
                os.register_at_fork(after_in_child=_forget_parent)
                atexit.register(_say_goodbye)
        return _rank


def _say_goodbye() -> None:
    rank = _rank
    if rank is None:
        return
    if rank.exit_status is None and getattr(sys, "last_value", None) is not None:
        rank.exit_status = 1
    with suppress(Exception):  # which Python would print as the last word of the job
        rank.close()


def _forget_parent() -> None:
    """Be nobody yet in a forked child: it has neither the parent's connection, nor its stop, nor its tracing."""
    global _rank, _lock, _forked_from  # noqa: PLW0603
    _lock = threading.Lock()
    parent, _rank = _rank, None
    if parent is None:
        return
    _forked_from = parent.identity
    _abandoned.append(parent)
    for descriptor in parent.link.descriptors():
        # Closed and not shut down: the connection is still the parent's.
        with suppress(OSError):
            os.close(descriptor)
    if parent._engine is not None and sys.gettrace() is not None:
        sys.settrace(None)
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            frame.f_trace = None
            frame = frame.f_back
