"""The functions behind ``install`` and ``uninstall``, and one that ``dbg-attach adopt`` runs in a running process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from dbg_agent.frames import ended
from dbg_agent.link.link import broker_overrides
from dbg_agent.process.imports import forget, loaded, when_loaded
from dbg_agent.program.own_rank import (
    become_defaults,
    crash_lease,
    crashed_rank,
    current,
    hold_exit,
    note_installed,
    settings_of,
    this_rank,
    warn,
    warn_if_alone,
)
from dbg_agent.rank.rank import Rank
from dbg_agent.rank.stop_limits import TORCH
from dbg_agent.settings import Settings
from dbg_dial.home import NUMBERS
from dbg_wire.errors import NoBroker, error_line
from dbg_wire.records.numbers import NumbersQuestion
from dbg_wire.records.record import decode_record

if TYPE_CHECKING:
    from types import ModuleType

    from dbg_agent.program.crash_hooks import CrashHooks

_crashes: CrashHooks | None = None

_timeouts_are_raised: Callable[[ModuleType], None] | None = None
"""The callback that raises the timeouts of torch's process groups when torch is imported; None before ``install``."""


def install_here(arguments: Mapping[str, object], unexpected: tuple[object, ...]) -> None:
    """Do the work of ``install``."""
    try:
        settings = settings_of("install", arguments, unexpected)
        if arguments.get("lease") is not None:
            note_installed(settings.lease)
        become_defaults(arguments)
        rank = this_rank(settings)
        if rank is None:
            return
        rank.settings = settings
        rank.link.start()
        rank.break_in.install()
        rank.link.call_later(settings.connect_timeout, lambda: warn_if_alone(rank))
        if settings.collective_timeout is not None:
            _raise_timeouts_with_torch(settings.collective_timeout)
        ended.watch()
        if os.environ.get(NUMBERS):
            question = decode_record(NumbersQuestion, os.environ[NUMBERS])
            rank.watch().start(question)
        if settings.post_mortem:
            _keep_crashes(settings)
        if settings.classic and not _keeps_debuggers(rank):
            from dbg_agent.program.stock_calls import redirect

            redirect()
        if settings.guard:
            _start_guard(rank)
    except Exception as error:
        warn(f"install failed ({error_line(error)}); continuing without a debugger")


def _raise_timeouts_with_torch(seconds: float) -> None:
    """Raise the timeouts of torch's groups once torch is imported; a rank without torch does not load that code."""
    global _timeouts_are_raised  # noqa: PLW0603 - one per process, as torch itself

    def install(module: ModuleType) -> None:
        from dbg_agent.torch.group_timeouts import timeouts

        timeouts.install(seconds)

    if _timeouts_are_raised is not None:
        forget(TORCH, _timeouts_are_raised)
    _timeouts_are_raised = install
    when_loaded(TORCH, install)


def _keeps_debuggers(rank: Rank) -> bool:
    """Return True if breakpoint calls still open stock debuggers, because there is a terminal and no known broker."""
    return os.isatty(0) and rank.settings.on_missing == "go-on" and isinstance(rank.link.wait_connected(0.0), NoBroker)


def _keep_crashes(settings: Settings) -> None:
    global _crashes  # noqa: PLW0603 - one per process, as the hooks themselves
    from dbg_agent.program.crash_hooks import CrashHooks

    if _crashes is None:
        _crashes = CrashHooks(_note_crash, _end_child)
        hold_exit(lambda rank: crash_lease(rank.settings))
    _crashes.install(lambda: crashed_rank(settings), crash_lease(settings))


def _note_crash(error: BaseException) -> None:
    rank = current()
    if rank is not None:
        from dbg_agent.frames.stacks import traceback_of
        from dbg_agent.program.crash_hooks import describe

        rank.program.last_words = describe(error), traceback_of(error.__traceback__)


def _end_child() -> None:
    """Disconnect a process that ends after an exception without any exit callbacks."""
    rank = current()
    if rank is not None:
        rank.program.exit_status = 1
        rank.close()


def _start_guard(rank: Rank) -> None:
    from dbg_agent.guard import rank_side

    try:
        guard = rank_side.Guard(
            lambda: rank.membership.identity.key,
            rank.settings.broker,
            rank.membership.registration(rank.rank_report(), anew=False),
            owner=lambda: rank.from_broker.owner,
            rank=rank.number,
            may_exec=rank.settings.exec,
        )
        rank_side.start(guard)
    except Exception as error:
        warn(f"the guard can't be started ({error_line(error)}); continuing without it")


def uninstall_here() -> None:
    """Do the work of ``uninstall``."""
    rank = current()
    if rank is not None:
        rank.break_in.uninstall()
    if _crashes is not None:
        _crashes.restore()
    ended.unwatch()
    # The module is loaded only with `classic`.
    stock_calls = loaded("dbg_agent.program.stock_calls")
    if stock_calls is not None:
        stock_calls.restore()
    forget_timeouts = _timeouts_are_raised
    if forget_timeouts is not None:
        forget(TORCH, forget_timeouts)
    # The module is loaded only with torch.
    group_timeouts = loaded("dbg_agent.torch.group_timeouts")
    if group_timeouts is not None:
        with suppress(Exception):
            group_timeouts.timeouts.uninstall()
    guard = loaded("dbg_agent.guard.rank_side")
    if guard is not None:
        guard.stop()


def become_rank(variables: Mapping[str, str], install: Callable[[], None]) -> dict[str, object]:
    """Make this process a rank by ``install``, and return the outcome for the terminal.

    ``variables`` are environment variables that locate the broker. Only this rank uses them when it looks for the
    broker; the program's environment stays unchanged. If this runs in the main thread, the rank can be broken into
    afterwards, even if another thread has called ``install`` before. Errors of the imports propagate.
    """
    rank = current()
    if rank is not None and (rank.break_in.installed or threading.current_thread() is not threading.main_thread()):
        return {"outcome": "already", "key": rank.membership.identity.key, "main": rank.break_in.installed}
    if rank is None:
        broker_overrides.update(variables)
    install()
    rank = current()
    if rank is None:
        return {"outcome": "failed", "text": "it is a launcher of ranks, not a rank"}
    return {"outcome": "adopted", "key": rank.membership.identity.key, "main": rank.break_in.installed}
