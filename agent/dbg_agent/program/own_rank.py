"""The one rank of this process: its creation, how long a crash keeps it, its end, and forks of the process."""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from dbg_agent.frames.stacks import outward
from dbg_agent.launch.this_process import Identity, framework_rank
from dbg_agent.link.outgoing import MAX_WARNINGS
from dbg_agent.process.imports import loaded
from dbg_agent.process.log import write_stderr
from dbg_agent.rank.rank import Rank
from dbg_agent.settings import CRASH_LEASE_SECONDS, Settings, read_settings
from dbg_agent.stop.inbox import ProgramRaised
from dbg_wire.errors import DbgError
from dbg_wire.launchers import is_launcher

NOT_DEFAULTS = frozenset({"classic", "collective_timeout", "exec", "guard", "lease", "mesh", "post_mortem"})
"""Arguments of ``install`` that only apply to ``install``. The others are also defaults of the stops that follow."""

_lock = threading.RLock()
"""Held while this process becomes a rank. The lock is reentrant, because a signal handler or finalizer of the program
may run in the same thread during that time and call ``set_trace``. The call would otherwise wait for a lock that its
own thread holds."""

_rank: Rank | None = None
_is_becoming_rank = False
_defaults: dict[str, object] = {}
_hooks_registered = False
_missing_was_reported = False
_exit_lease: Callable[[Rank], float] | None = None
_forked_from: Identity | None = None
_warnings: set[str] = set()
_abandoned: list[Rank] = []
"""Rank objects of the processes that this one was forked from. They are kept, because Python would otherwise delete
them here and close their connections, with warnings. The parent still uses these connections."""

UNANSWERED_SECONDS = 2.0
"""Maximum time, in seconds, that a crashed rank waits while no broker accepts its connections. Without a broker the
crash must not delay the end of the process. If there is one, its kernel accepts connections at once, even if it is
busy."""


def current() -> Rank | None:
    """Return this process's rank, or None if it is not a rank yet."""
    return _rank


class AskedForError(Exception):
    """Carries an error that the program requested by ``on_missing="raise"``."""

    def __init__(self, problem: DbgError) -> None:
        super().__init__(problem)
        self.problem = problem


def connected_rank(settings: Settings, unanswered: float = math.inf, *, asked_for: bool = False) -> Rank | None:
    """Return this rank once the broker knows it; None, after a warning, if the program continues without a broker.

    The wait ends early if no broker has answered for ``unanswered`` seconds. If a user has requested the stop from
    outside the program (``asked_for``), it waits as long as the broker's process lives. Raise AskedForError with
    ``on_missing="raise"``.
    """
    rank = this_rank(settings)
    if rank is None:
        return None
    problem = rank.connect(settings, unanswered, asked_for=asked_for)
    if problem is None:
        return rank
    if settings.on_missing == "raise":
        raise AskedForError(problem)
    _warn_of_missing(rank, problem, ends=unanswered < math.inf)
    return None


def note_exit(status: int) -> None:
    """Record the exit status, which the goodbye to the broker will contain."""
    if _rank is not None:
        _rank.program.exit_status = status


def hold_exit(seconds: Callable[[Rank], float]) -> None:
    """Make this process delay its exit while other ranks are kept after a crash.

    ``seconds`` returns the maximum delay.
    """
    global _exit_lease  # noqa: PLW0603 - one per process
    _exit_lease = seconds


def warn_if_alone(rank: Rank) -> None:
    """Warn once if no broker has answered."""
    if rank.membership.welcome is not None or rank.program.waits_at_stop:
        # No warning is needed if a stop has already warned, or if the rank was connected: the broker may be back soon.
        return
    problem = rank.link.wait_connected(0.0)
    if problem is not None:
        _warn_of_missing(rank, problem)


def _warn_of_missing(rank: Rank, problem: DbgError, *, ends: bool = False) -> None:
    """Warn once that this process continues without a broker; ``ends`` is True if a crash is ending the process."""
    global _missing_was_reported  # noqa: PLW0603 - one per process
    if not _missing_was_reported:
        _missing_was_reported = True
        rank.broker.warn(f"{problem}; {_what_follows(rank, ends=ends)}")


def _what_follows(rank: Rank, *, ends: bool) -> str:
    """Return how the program continues, and how a debugger opens in it once the link has found a broker."""
    if ends or not rank.link.keeps_trying:
        return "continuing without a debugger"
    how = f"`dbg-attach interrupt {rank.number}` stops it" if rank.break_in.installed else "its next set_trace() stops"
    return f"the program continues without stopping. The rank keeps trying; once it is connected, {how}"


def become_defaults(arguments: Mapping[str, object]) -> None:
    """Make the arguments of ``install`` the defaults of later stops."""
    _defaults.update(
        {name: value for name, value in arguments.items() if value is not None and name not in NOT_DEFAULTS}
    )


def settings_of(function: str, arguments: Mapping[str, object], unexpected: tuple[object, ...]) -> Settings:
    """Return the settings of one call; its own arguments override those of ``install``."""
    given = {name: value for name, value in arguments.items() if value is not None or name not in _defaults}
    return read_settings(function, {**_defaults, **given}, unexpected, os.environ, warn)


def warn(text: str) -> None:
    """Write one line to stderr, once in a process, which may or may not be a rank."""
    if text in _warnings or len(_warnings) >= MAX_WARNINGS:
        return
    _warnings.add(text)
    if _rank is not None:
        _rank.broker.warn(text)
    else:
        write_stderr(text)


def this_rank(settings: Settings) -> Rank | None:
    """Return this process's rank, created at the first call; None for a launcher, which is never a rank.

    A signal handler or finalizer may call this function while the rank is being created; it gets None, after a warning.
    """
    global _is_becoming_rank  # noqa: PLW0603
    with _lock:
        if _rank is not None:
            return _rank
        module = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None)
        if is_launcher(sys.argv, module, os.environ):
            return None
        if _is_becoming_rank:
            warn("a stop in a signal handler or finalizer was skipped because this process was just becoming a rank")
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
        # Before a fork, hooks run in the reverse order of their registration. The hook of logging takes a lock that the
        # link's thread may need for its imports. So the agent's hook, which pauses the link's thread, must run before
        # the hook of logging, and must be registered after that one.
        import logging  # noqa: F401

        os.register_at_fork(before=_pause_link, after_in_parent=_forked, after_in_child=_forget_parent)
        atexit.register(send_goodbye)
    return _rank


def send_goodbye() -> None:
    """Disconnect from the broker, because the program of this process has ended."""
    rank = _rank
    if rank is None:
        return
    # `last_value` is set if an exception was not caught, and then the exit status is 1. An interactive session, which
    # has `ps1`, continues after such an exception.
    if rank.program.exit_status is None and getattr(sys, "last_value", None) and not hasattr(sys, "ps1"):
        rank.program.exit_status = 1
    with suppress(Exception):  # Python would print an exception at the end of the job's log
        if _exit_lease is not None:
            # If a signal handler ends this wait by an exception, the exception is dropped: the process ends anyway.
            with suppress(ProgramRaised):
                rank.holding.hold_exit(_exit_lease(rank))
        # The module is loaded only if a guard was started.
        guard = loaded("dbg_agent.guard.rank_side")
        if guard is not None:
            guard.stop_heartbeat_check()
        rank.close()
        if rank.debuggers.last is not None:
            # Tracing ends: no terminal can show a breakpoint any more, and a trace function fails while Python shuts
            # down.
            sys.settrace(None)
        if guard is not None:
            guard.end()
    _stay_interrupted()


def _stay_interrupted() -> None:
    """Make the process die of SIGINT after Ctrl-C, as it would without the agent: shells and launchers notice this.

    The interpreter remembers an uncaught KeyboardInterrupt, and then dies of SIGINT. But it forgets the exception when
    it executes source text, and the imports for the goodbye execute such text. So the exception is raised once more,
    and the interpreter records it again.
    """
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")  # noqa: S102 - the interpreter records it again


def _pause_link() -> None:
    """Pause the link's thread while this process forks."""
    if _rank is not None:
        _rank.link.fork_safety.before_fork()
        _rank.link.names.before_fork()


def _forked() -> None:
    if _rank is not None:
        _rank.link.names.after_fork()
        _rank.link.fork_safety.after_fork()


def _forget_parent() -> None:
    """Forget the parent's rank in a forked child, with the parent's connection, stop and tracing."""
    global _rank, _lock, _is_becoming_rank, _forked_from  # noqa: PLW0603
    _lock, _is_becoming_rank = threading.RLock(), False
    parent, _rank = _rank, None
    if parent is None:
        return
    _forked_from = replace(parent.membership.identity, by_library=framework_rank(sys.modules) is not None)
    _abandoned.append(parent)
    parent.break_in.forget()
    for descriptor in parent.link.descriptors():
        # Only this process's descriptor is closed. The connection is not shut down, because the parent still uses it.
        with suppress(OSError):
            os.close(descriptor)
    if parent.debuggers.last is not None and sys.gettrace() is not None:
        sys.settrace(None)
        for frame in outward(sys._getframe()):
            frame.f_trace = None


_installed: float | None = None


def note_installed(lease: float | None) -> None:
    """Record the lease passed to ``install``: it applies to crashes, and is not a default of other stops."""
    global _installed  # noqa: PLW0603 - one per process
    _installed = lease


def installed() -> float | None:
    """Return the lease passed to ``install``, in seconds."""
    return _installed


def crash_lease(settings: Settings) -> float:
    """Return for how many seconds a crashed rank is kept; 0 by default in a test run, where no user attaches."""
    if settings.lease is not None:
        return settings.lease
    return 0.0 if is_test_run() else CRASH_LEASE_SECONDS


def is_test_run() -> bool:
    """Return True if this is a test run (variable ``CI``)."""
    return bool(os.environ.get("CI"))


def crashed_rank(settings: Settings) -> Rank | None:
    """Return this rank once the broker knows it; None, after a short wait, if the rank ends without a broker."""
    return connected_rank(settings, UNANSWERED_SECONDS)
