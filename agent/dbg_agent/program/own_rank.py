"""The one rank of this process: how it becomes one, and what happens at a fork and at the end."""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType

from dbg_wire.errors import DbgError

from ..launch.this_process import Identity, is_launcher
from ..rank.rank import MAX_WARNINGS, Rank
from ..settings import Settings, read_settings
from ..stderr import say
from ..stop.inbox import ProgramRaised

NOT_DEFAULTS = frozenset({"breakpoint", "classic", "collective_timeout", "guard", "lease", "mesh", "post_mortem"})
"""Arguments of ``install`` that are its own, and no defaults of the stops that follow."""

_lock = threading.RLock()
"""Held while this process becomes a rank. A signal handler or a finalizer of the program's may run in the midst of that
and stop, too: its thread must not wait for itself."""

_rank: Rank | None = None
_is_becoming_rank = False
_defaults: dict[str, object] = {}
_hooks_registered = False
_missing_told = False
_exit_lease: Callable[[Rank], float] | None = None
_forked_from: Identity | None = None
_told: set[str] = set()
_abandoned: list[Rank] = []
"""Ranks of the process that this one was forked from. They are kept: collecting them would close their connection's
objects here, with warnings, while the parent still uses them."""


def current() -> Rank | None:
    """Return the rank that this process is by now."""
    return _rank


class AskedForError(Exception):
    """Carry an error that the program asked for by ``on_missing="raise"``."""

    def __init__(self, problem: DbgError) -> None:
        super().__init__(problem)
        self.problem = problem


def connected_rank(settings: Settings, unanswered: float = math.inf) -> Rank | None:
    """Return this rank once the broker knows it; None, having said why, if it goes on without.

    That is at once if nobody at all has answered for ``unanswered`` seconds.
    """
    rank = this_rank(settings)
    if rank is None:
        return None
    problem = rank.connect(settings, unanswered)
    if problem is None:
        return rank
    if settings.on_missing == "raise":
        raise AskedForError(problem)
    _warn_of_missing(rank, problem)
    return None


def note_exit(status: int) -> None:
    """Have the goodbye say with which status the process ends."""
    if _rank is not None:
        _rank.exit_status = status


def hold_exit(seconds: Callable[[Rank], float]) -> None:
    """Have this process hold its exit, for so many seconds, while other ranks are kept after a crash."""
    global _exit_lease  # noqa: PLW0603 - one per process
    _exit_lease = seconds


def warn_if_alone(rank: Rank) -> None:
    """Say once that no broker has answered, unless one has by now."""
    if rank.membership.welcome is not None:
        # It has been in; a broker that is away just now changes nothing, least of all a stop.
        return
    problem = rank.link.wait_connected(0.0)
    if problem is not None:
        _warn_of_missing(rank, problem)


def _warn_of_missing(rank: Rank, problem: DbgError) -> None:
    """Say once in a process that it goes on without a broker, whichever call noticed it first."""
    global _missing_told  # noqa: PLW0603 - one per process
    if not _missing_told:
        _missing_told = True
        rank.warn(f"{problem}; going on without a debugger")


def become_defaults(arguments: Mapping[str, object]) -> None:
    """Have the arguments of ``install`` hold for the stops that follow."""
    _defaults.update(
        {name: value for name, value in arguments.items() if value is not None and name not in NOT_DEFAULTS}
    )


def settings_of(function: str, arguments: Mapping[str, object], unexpected: tuple[object, ...]) -> Settings:
    """Return the settings of one call, whose arguments go before those of ``install``."""
    given = {name: value for name, value in arguments.items() if value is not None or name not in _defaults}
    return read_settings(function, {**_defaults, **given}, unexpected, os.environ, warn)


def warn(text: str) -> None:
    """Write one line to stderr, once in a process, whether it is a rank yet or never."""
    if text in _told or len(_told) >= MAX_WARNINGS:
        return
    _told.add(text)
    if _rank is not None:
        _rank.warn(text)
    else:
        say(text)


def this_rank(settings: Settings) -> Rank | None:
    """Return the rank that this process is, or None if it is a launcher, which never is one."""
    global _is_becoming_rank  # noqa: PLW0603
    with _lock:
        if _rank is not None:
            return _rank
        module = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None)
        if is_launcher(sys.argv, module, os.environ):
            return None
        if _is_becoming_rank:
            warn("passed by what a signal handler or a finalizer asked for while this process became a rank")
            return None
        _is_becoming_rank = True
        try:
            return _become_rank(settings)
        finally:
            _is_becoming_rank = False


def _become_rank(settings: Settings) -> Rank:
    global _rank, _hooks_registered  # noqa: PLW0603
    _rank = Rank(settings, _forked_from)
    if not _hooks_registered:
        _hooks_registered = True
        # Its own hook takes the lock that the link's imports need, and of two hooks the later one goes first.
        import logging  # noqa: F401

        os.register_at_fork(before=_pause_link, after_in_parent=_forked, after_in_child=_forget_parent)
        atexit.register(_say_goodbye)
    return _rank


def _say_goodbye() -> None:
    rank = _rank
    if rank is None:
        return
    if rank.exit_status is None and getattr(sys, "last_value", None) is not None:
        rank.exit_status = 1
    with suppress(Exception):  # which Python would print as the last word of the job
        if _exit_lease is not None:
            # Whoever interrupts that wait wants the process to end, as it does.
            with suppress(ProgramRaised):
                rank.holding.hold_exit(_exit_lease(rank))
        # Not loaded unless it was asked for.
        guard = sys.modules.get("dbg_agent.guard.rank_side")
        if guard is not None:
            guard.calm()
        rank.close()
        if rank.debuggers.last is not None:
            # A breakpoint can be shown to nobody from here on, and a trace function fails in what Python takes apart.
            sys.settrace(None)
        if guard is not None:
            guard.end()
    _stay_interrupted()


def _stay_interrupted() -> None:
    """Have a process that Ctrl-C ends be ended by that signal, for shells and launchers to see, as it would without us.

    The interpreter has noted it, but forgets when any text is executed, which the goodbye's imports do.
    """
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")  # noqa: S102 - it notes it for whatever text raises it


def _pause_link() -> None:
    """Have the link's thread be at rest while this process forks."""
    if _rank is not None:
        _rank.link.fork_safety.before_fork()
        _rank.link.names.before_fork()


def _forked() -> None:
    if _rank is not None:
        _rank.link.names.after_fork()
        _rank.link.fork_safety.after_fork()


def _forget_parent() -> None:
    """Be nobody yet in a forked child: it has neither the parent's connection, nor its stop, nor its tracing."""
    global _rank, _lock, _is_becoming_rank, _forked_from  # noqa: PLW0603
    _lock, _is_becoming_rank = threading.RLock(), False
    parent, _rank = _rank, None
    if parent is None:
        return
    _forked_from = parent.identity
    _abandoned.append(parent)
    parent.break_in.forget()
    for descriptor in parent.link.descriptors():
        # Closed and not shut down: the connection is still the parent's.
        with suppress(OSError):
            os.close(descriptor)
    if parent.debuggers.last is not None and sys.gettrace() is not None:
        sys.settrace(None)
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            frame.f_trace = None
            frame = frame.f_back
