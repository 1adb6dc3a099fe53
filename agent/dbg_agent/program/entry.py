"""The implementation of ``set_trace`` and ``post_mortem``, and functions that breakpoints in a program's code call.

The program's calls go through this module. The agent's own errors never propagate, except errors requested by
``on_missing="raise"``.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import FrameType

from dbg_agent.launch.this_process import framework_rank, this_process
from dbg_agent.program.own_rank import (
    AskedForError,
    connected_rank,
    crash_lease,
    crashed_rank,
    current,
    installed,
    is_test_run,
    settings_of,
    warn,
)
from dbg_agent.rank.rank import Rank
from dbg_agent.settings import Settings
from dbg_agent.stop.inbox import ProgramRaised, unharmed
from dbg_wire.errors import BrokerUnreachable, error_line, printable

MAX_PASSED = 300
"""Maximum number of characters of the sentence about a skipped stop. A list shows the sentence in one line."""


def stop_at(
    frame: FrameType,
    arguments: Mapping[str, object],
    unexpected: tuple[object, ...],
    *,
    before_line: bool = False,
    asked_for: bool = False,
    may_await: bool = False,
) -> str | None:
    """Do the work of ``set_trace``; return why the program continued without stopping, or None if it stopped.

    With ``before_line`` the frame's line has not run yet; otherwise the stop is a call in that line. If a user has
    requested the stop from outside the program (``asked_for``), it waits for the broker as long as the broker's process
    lives. With ``may_await`` the caller awaits an expression that is typed at pdb as ``await …``.
    """

    def stop() -> str | None:
        tracer = sys.gettrace()
        # Tracing ends here for the same reason as in Stopping.stop: a debugger's step must not enter this code.
        sys.settrace(None)
        try:
            settings = settings_of("set_trace", arguments, unexpected)
            rank = connected_rank(settings, asked_for=asked_for)
            if rank is not None and settings.rc:
                rank.debuggers.reads_rc = True
        except AskedForError as asked:
            raise ProgramRaised(asked.problem) from None
        finally:
            sys.settrace(tracer)
        if rank is None:
            return _skip_site(frame)
        rank.halt.awaits_in = threading.get_ident() if may_await else None
        try:
            _stop_or_hold(rank, frame, settings, before_line=before_line)
        finally:
            rank.halt.awaits_in = None
        return None

    return unharmed(stop, _failed)


async def stop_async(frame: FrameType, arguments: Mapping[str, object], unexpected: tuple[object, ...] = ()) -> None:
    """Do the work of ``pdb.set_trace_async``: stop, await the expression typed as ``await …``, and stop again."""
    while True:
        stop_at(frame, arguments, unexpected, before_line=True, may_await=True)
        rank = current()
        typed = rank.halt.take_awaitable() if rank is not None else None
        if rank is None or typed is None:
            return
        try:
            await typed
        except Exception as error:
            rank.debuggers.console.write(f"*** {error_line(error)}\n")


def _failed(error: Exception) -> str:
    failure = f"set_trace failed ({error_line(error)})"
    warn(f"{failure}; continuing without a debugger")
    return failure


def _skip_site(frame: FrameType) -> str | None:
    """Record that the program skips this stop, so that the rank reports it once a broker is connected.

    Return why no broker is connected, or None if this process is not a rank.
    """
    rank = current()
    if rank is None or rank.program.missing is None:
        return None
    missing = rank.program.missing
    why = f"no broker answered ({missing.reason})" if isinstance(missing, BrokerUnreachable) else str(missing)
    place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"  # noqa: PTH119 - in a rank
    rank.program.passed = printable(f"{place} without stopping, because {why}", MAX_PASSED)
    return why


def _stop_or_hold(rank: Rank, frame: FrameType, settings: Settings, *, before_line: bool) -> None:
    """Stop this rank if it is chosen; otherwise hold it while the chosen ranks are stopped here, or continue."""
    chosen = settings.ranks
    if chosen is None:
        rank.stopping.stop(frame, "breakpoint", settings.engine, lease=settings.lease, before_line=before_line)
        return
    # The site is the same in all ranks, although they may know the file by different paths.
    site = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"  # noqa: PTH119 - in a rank
    # The number is read again: a worker of mp.spawn has another number until torch gives it its rank.
    me = rank.membership.identify()
    if me.rank in chosen:
        rank.stopping.stop(
            frame, "breakpoint", settings.engine, site=site, lease=settings.lease, before_line=before_line
        )
        return
    world = me.world_size
    there = tuple(number for number in chosen if world is None or number < world)
    if len(there) < len(chosen):
        warn(f"set_trace(ranks=…) names ranks that a job of {world} ranks does not have")
    if settings.hold and there:
        rank.holding.hold(frame, site, there, settings.hold_grace)


def keep_here(error: BaseException | None, arguments: Mapping[str, object], unexpected: tuple[object, ...]) -> None:
    """Do the work of ``post_mortem``."""
    if error is None:
        warn("post_mortem() works only in an except block, and there is no exception here; continuing")
        return
    from dbg_agent.program.crash_hooks import keep

    settings = settings_of("post_mortem", arguments, unexpected)
    if installed() is not None and arguments.get("lease") is None:
        settings = replace(settings, lease=installed())
    if settings.lease is None and is_test_run():
        # After an uncaught exception nothing is printed here. But this stop was requested by the program, so the user
        # is told that the rank does not stop.
        warn("post_mortem() keeps nothing where CI is set, unless it has a lease; continuing")
        return
    keep(lambda: crashed_rank(settings), error, error.__traceback__, crash_lease(settings))


def halted_at(frame: FrameType) -> bool:
    """Return True, only once for each halt, if a step or a breakpoint has just halted this frame at its line."""
    rank = current()
    return rank is not None and rank.halt.has_just_halted(frame)


def no_step_ends() -> bool:
    """Return False if a step or a breakpoint has halted a frame and :func:`halted_at` has not reported this yet."""
    rank = current()
    return rank is None or not rank.halt.was_stepped


_found: tuple[object, dict[bytes, bytes], int] | None = None
"""Cache for a process that is not a rank: its id and its number in a framework, its environment variables, and the rank
number that follows from these."""


def rank_number() -> int:
    """Return the present number of this process in its job."""
    global _found  # noqa: PLW0603 - one per process
    rank = current()
    if rank is not None:
        return rank.number
    # The number is cached, because a breakpoint's condition may read `rank` a million times. Comparing the environment
    # with the cached one takes a microsecond or two; searching it for the variables of all launchers takes a hundred.
    environ: dict[bytes, bytes] = vars(os.environ).get("_data", {})
    by = os.getpid(), framework_rank(sys.modules)
    if not environ or _found is None or _found[0] != by or _found[1] != environ:
        _found = by, dict(environ), this_process().rank
    return _found[2]
