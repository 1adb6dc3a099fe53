"""One rank for a process: the bodies of the public functions, and what happens at a fork and at the end.

Everything that the program calls goes through here, and nothing of ours comes out but what it asked for.
"""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING

from dbg_wire.errors import DbgError, printable

from ..launch.this_process import Identity, is_launcher, this_process
from ..rank.rank import MAX_WARNINGS, Rank
from ..settings import CRASH_LEASE_SECONDS, Settings, read_settings
from ..stderr import say
from ..stop.inbox import ProgramRaised
from ..waiting.group_timeouts import timeouts

if TYPE_CHECKING:
    from .crash_hooks import Crashes

STACK_FRAMES = 100
"""Calls that a stop needs below it, imports at its first use included; without them it could break off anywhere."""

NOT_DEFAULTS = frozenset({"breakpoint", "classic", "collective_timeout", "guard", "lease", "mesh", "post_mortem"})
"""Arguments of ``install`` that are its own, and no defaults of the stops that follow."""

_lock = threading.RLock()
"""Held while this process becomes a rank. A signal handler or a finalizer of the program's may run in the midst of that
and stop, too: its thread must not wait for itself."""

_rank: Rank | None = None
_is_becoming_rank = False
_defaults: dict[str, object] = {}
_installed_lease: float | None = None
"""For how many seconds crashes are kept by the word of ``install``; it is no default of other stops."""
_former_hook: Callable[..., object] | None = None
_hooks_registered = False
_missing_told = False
_crashes: Crashes | None = None
_forked_from: Identity | None = None
_told: set[str] = set()
_abandoned: list[Rank] = []
"""Ranks of the process that this one was forked from. They are kept: collecting them would close their connection's
objects here, with warnings, while the parent still uses them."""


def stop_at(
    frame: FrameType, arguments: Mapping[str, object], unexpected: tuple[object, ...], *, before_line: bool = False
) -> None:
    """Be the body of ``set_trace``; ``before_line`` if it stands in front of the frame's line, and not in one."""
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
            _stop_or_hold(rank, frame, settings, before_line=before_line)
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


def _stop_or_hold(rank: Rank, frame: FrameType, settings: Settings, *, before_line: bool) -> None:
    """Stop this rank if it is chosen, else hold it while the chosen ones are stopped here, or go on."""
    chosen = settings.ranks
    if chosen is None:
        rank.stop(frame, "breakpoint", settings.engine, lease=settings.lease, before_line=before_line)
        return
    site = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    if rank.identity.rank in chosen:
        rank.stop(frame, "breakpoint", settings.engine, site=site, lease=settings.lease, before_line=before_line)
        return
    world = rank.identity.world_size
    there = tuple(number for number in chosen if world is None or number < world)
    if len(there) < len(chosen):
        _warn(f"set_trace(ranks=…) names ranks that a job of {world} does not have; ignored")
    if settings.hold and there:
        rank.waits.hold(frame, site, there, settings.hold_grace, settings.hold_lost)


def halted_at(frame: FrameType) -> bool:
    """Say, once for each halt, whether a step or a breakpoint has just halted this frame at its present line."""
    rank = _rank
    if rank is None or rank.stepped_to != (id(frame), frame.f_lineno):
        return False
    rank.stepped_to = None
    return True


def no_step_ends() -> bool:
    """Say that no step or breakpoint has halted any frame since :func:`halted_at` last said so."""
    return _rank is None or _rank.stepped_to is None


def is_rank() -> bool:
    """Tell whether this process is a rank by now."""
    return _rank is not None


def rank_number() -> int:
    """Return the number of this process in its job, as far as it is known by now."""
    return (_rank.identity if _rank is not None else this_process()).rank


def let_others_go() -> None:
    """Have the ranks go on that are held for the stop of the calling thread, if there is one; it stays."""
    if _rank is not None:
        _rank.let_others_go()


def has_room(frames: int = STACK_FRAMES) -> bool:
    """Return True, or raise RecursionError if so many calls would be too many."""
    return frames == 0 or has_room(frames - 1)


class _AskedForError(Exception):
    """Carry an error that the program asked for by ``on_missing="raise"``."""

    def __init__(self, problem: DbgError) -> None:
        super().__init__(problem)
        self.problem = problem


def _connected_rank(settings: Settings, unanswered: float = math.inf) -> Rank | None:
    """Return this rank once the broker knows it; None, having said why, if it goes on without.

    That is at once if nobody at all has answered for ``unanswered`` seconds.
    """
    rank = _this_rank(settings)
    if rank is None:
        return None
    problem = rank.connect(settings, unanswered)
    if problem is None:
        return rank
    if settings.on_missing == "raise":
        raise _AskedForError(problem)
    _warn_of_missing(rank, problem)
    return None


def install_here(arguments: Mapping[str, object], unexpected: tuple[object, ...]) -> None:
    """Be the body of ``install``."""
    global _former_hook, _installed_lease  # noqa: PLW0603 - one per process, as the hook itself
    try:
        settings = _settings("install", arguments, unexpected)
        if arguments.get("lease") is not None:
            _installed_lease = settings.lease
        _defaults.update(
            {name: value for name, value in arguments.items() if value is not None and name not in NOT_DEFAULTS}
        )
        rank = _this_rank(settings)
        if rank is None:
            return
        rank.settings = settings
        rank.link.start()
        rank.break_in.install()
        rank.link.call_later(settings.connect_timeout, lambda: _warn_if_alone(rank))
        if settings.collective_timeout is not None:
            timeouts.install(settings.collective_timeout)
        if settings.breakpoint and _former_hook is None:
            from .. import set_trace

            _former_hook = sys.breakpointhook
            sys.breakpointhook = set_trace
        if settings.post_mortem:
            _keep_crashes(settings)
        if settings.classic:
            from .stock_calls import redirect

            redirect()
        if settings.guard:
            _start_guard(rank)
    except Exception as error:
        _warn(f"install failed ({type(error).__name__}: {printable(str(error))}); going on without a debugger")


def _keep_crashes(settings: Settings) -> None:
    global _crashes  # noqa: PLW0603 - one per process, as the hooks themselves
    from .crash_hooks import Crashes

    if _crashes is None:
        _crashes = Crashes(lambda: _crashed_rank(settings), _note_crash, _end_child, _crash_lease(settings))
    _crashes.install()


def _crashed_rank(settings: Settings) -> Rank | None:
    from .crash_hooks import UNANSWERED_SECONDS

    return _connected_rank(settings, UNANSWERED_SECONDS)


def _crash_lease(settings: Settings) -> float:
    """Return for how many seconds a crashed rank is kept; in a test run nobody comes to look."""
    if settings.lease is not None:
        return settings.lease
    return 0.0 if _is_test_run() else CRASH_LEASE_SECONDS


def _is_test_run() -> bool:
    return bool(os.environ.get("CI"))


def _note_crash(error: BaseException) -> None:
    if _rank is not None:
        from ..stop.stacks import traceback_of
        from .crash_hooks import describe

        _rank.last_words = describe(error), traceback_of(error.__traceback__)


def _end_child() -> None:
    """Say goodbye for a process that ends after an exception, past everything that runs at an exit."""
    if _rank is not None:
        _rank.exit_status = 1
        _rank.close()


def keep_here(error: BaseException | None, arguments: Mapping[str, object], unexpected: tuple[object, ...]) -> None:
    """Be the body of ``post_mortem``."""
    if error is None:
        _warn("post_mortem() is for an except block, and there is no exception here; going on")
        return
    from .crash_hooks import keep

    settings = _settings("post_mortem", arguments, unexpected)
    if _installed_lease is not None and arguments.get("lease") is None:
        settings = replace(settings, lease=_installed_lease)
    if settings.lease is None and _is_test_run():
        # Unlike a crash that nobody catches, this was asked for in the program, and passing by must not be silent.
        _warn("post_mortem() keeps nothing where CI is set, unless a lease says for how long; going on")
        return
    keep(lambda: _crashed_rank(settings), error, error.__traceback__, _crash_lease(settings))


def _start_guard(rank: Rank) -> None:
    from ..guard import rank_side as guard

    try:
        guard.start(rank)
    except Exception as error:
        _warn(f"no guard can be started ({type(error).__name__}: {printable(str(error))}); going on without one")


def uninstall_here() -> None:
    """Be the body of ``uninstall``."""
    global _former_hook
    if _rank is not None:
        _rank.break_in.uninstall()
    if _crashes is not None:
        _crashes.restore()
    if _former_hook is not None:
        former, _former_hook = _former_hook, None
        from .. import set_trace

        if sys.breakpointhook is set_trace:
            sys.breakpointhook = former
    # Not loaded unless it was asked for.
    classic = sys.modules.get("dbg_agent.program.stock_calls")
    if classic is not None:
        classic.restore()
    with suppress(Exception):
        timeouts.uninstall()
    guard = sys.modules.get("dbg_agent.guard.rank_side")
    if guard is not None:
        guard.stop()


def note_exit(status: int) -> None:
    """Have the goodbye say with which status the process ends."""
    if _rank is not None:
        _rank.exit_status = status


def _warn_if_alone(rank: Rank) -> None:
    if rank.welcome is not None:
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
    global _is_becoming_rank  # noqa: PLW0603
    with _lock:
        if _rank is not None:
            return _rank
        module = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None)
        if is_launcher(sys.argv, module, os.environ):
            return None
        if _is_becoming_rank:
            _warn("passed by what a signal handler or a finalizer asked for while this process became a rank")
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

        os.register_at_fork(before=_rest_link, after_in_parent=_forked, after_in_child=_forget_parent)
        atexit.register(_say_goodbye)
    return _rank


def _say_goodbye() -> None:
    rank = _rank
    if rank is None:
        return
    if rank.exit_status is None and getattr(sys, "last_value", None) is not None:
        rank.exit_status = 1
    with suppress(Exception):  # which Python would print as the last word of the job
        if _crashes is not None:
            # Whoever interrupts that wait wants the process to end, as it does.
            with suppress(ProgramRaised):
                rank.waits.hold_exit(_crash_lease(rank.settings))
        # Not loaded unless it was asked for.
        guard = sys.modules.get("dbg_agent.guard.rank_side")
        if guard is not None:
            guard.calm()
        rank.close()
        if rank.engine is not None:
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


def _rest_link() -> None:
    """Have the link's thread be at rest while this process forks."""
    if _rank is not None:
        _rank.link.rest.before_fork()
        _rank.link.names.before_fork()


def _forked() -> None:
    if _rank is not None:
        _rank.link.names.after_fork()
        _rank.link.rest.after_fork()


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
    if parent._engine is not None and sys.gettrace() is not None:
        sys.settrace(None)
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            frame.f_trace = None
            frame = frame.f_back
