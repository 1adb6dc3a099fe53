"""Hooks that keep a crashed rank: its uncaught exception becomes a stop, and then the rank exits as it would have.

The hooks that were set before run first, so that the traceback is in the log even if this module fails. The hooks
notice neither ``os._exit``, nor a fatal signal, nor an exception that a framework catches.
"""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from dbg_agent.frames.stacks import is_own
from dbg_agent.process.log import write_stderr
from dbg_agent.process.threads import own_thread
from dbg_agent.stop.inbox import unharmed
from dbg_agent.stop.stops import Crash
from dbg_wire.errors import error_line
from dbg_wire.messages import Notice
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from dbg_agent.rank.rank import Rank

MAX_DETAIL = 300
"""Maximum number of characters with which an exception is described in a list of ranks."""

GRACE = {"torchrun": 30, "slurm": 30, "openmpi": 1}
"""Time in seconds from the SIGTERM to the SIGKILL of each launcher, as measured; for other launchers it is unknown."""

PASSING = (KeyboardInterrupt, SystemExit)
"""Exceptions that are not crashes: with these a user or the program ends the process on purpose."""

_Connect = Callable[[], "Rank | None"]
"""Returns this rank once it is connected; None if there is no broker, or if the process is a launcher."""


class CrashHooks:
    """The agent's hooks for uncaught exceptions. Each calls the hook that was set before, and then keeps the rank."""

    def __init__(self, note: Callable[[BaseException], None], end: Callable[[], None]) -> None:
        self._note = note
        self._end = end
        self._former: tuple[Any, Any, Any] | None = None

    def install(self, connect: _Connect, lease: float) -> None:
        """Install the hooks unless they are installed; a later call only sets ``connect`` and ``lease`` again."""
        self._connect, self._lease = connect, lease
        if self._former is not None:
            return
        import traceback

        self._former = sys.excepthook, threading.excepthook, traceback.print_exc
        sys.excepthook = self._main_hook
        threading.excepthook = self._thread_hook
        # In a child of `multiprocessing` no hook is called for an uncaught exception, but `traceback.print_exc` is.
        traceback.print_exc = self._print_exc

    def restore(self) -> None:
        """Restore the former hooks, except where other code has set its own hook in the meantime."""
        import traceback

        if self._former is None:
            return
        main, thread, print_exc = self._former
        self._former = None
        if sys.excepthook == self._main_hook:
            sys.excepthook = main
        if threading.excepthook == self._thread_hook:
            threading.excepthook = thread
        if traceback.print_exc == self._print_exc:
            traceback.print_exc = print_exc

    def _main_hook(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        former = self._former[0] if self._former is not None else sys.__excepthook__
        former(kind, error, traceback)
        with _StderrShown():
            self._keep(error, traceback, "this rank")

    def _thread_hook(self, args: threading.ExceptHookArgs) -> None:
        former = self._former[1] if self._former is not None else threading.__excepthook__
        former(args)
        if args.exc_value is not None:
            self._keep(args.exc_value, args.exc_traceback, "this thread")

    def _print_exc(self, *args: Any, **kwargs: Any) -> None:
        if self._former is not None:
            self._former[2](*args, **kwargs)
        _, error, traceback = sys.exc_info()
        if error is not None and _is_bootstrap(sys._getframe(1)):
            self._keep(error, traceback, "this rank")
            # This child ends by os._exit, which runs no exit callbacks, so the rank is disconnected here.
            self._end()

    def _keep(self, error: BaseException, traceback: TracebackType | None, ends: str) -> None:
        with suppress(Exception):
            self._note(error)
        # A KeyboardInterrupt while the rank is kept means that the process must end. It ends right after the hook
        # anyway. If the exception propagated, the interpreter would print it as an error of the hook.
        with suppress(KeyboardInterrupt):
            keep(self._connect, error, traceback, self._lease, ends)


def _is_bootstrap(frame: FrameType) -> bool:
    """Return True if the frame is the function of ``multiprocessing`` that ends a child after an exception."""
    return frame.f_code.co_name == "_bootstrap" and frame.f_globals.get("__name__") == "multiprocessing.process"


def keep(
    connect: _Connect, error: BaseException, traceback: TracebackType | None, lease: float, ends: str = ""
) -> None:
    """Stop the calling thread where ``error`` was raised, for ``lease`` seconds unless a terminal attaches.

    ``ends`` names what ends because of the exception when the stop is over, such as "this thread"; it is empty if the
    program has caught the exception. The agent's own errors never propagate.
    """
    if isinstance(error, PASSING):
        return

    def stop() -> None:
        rank = connect() if lease > 0 else None
        frame = _innermost(traceback)
        if rank is None or frame is None:
            return
        rank.stopping.end_step()
        if not rank.stops.is_mine():
            _keep(rank, error.with_traceback(traceback), frame, lease, ends)

    unharmed(stop, lambda fault: write_stderr(f"the crashed rank can't be kept ({error_line(fault)})"))


def _keep(rank: Rank, error: BaseException, frame: FrameType, lease: float, ends: str) -> None:
    with _Terminating(rank):
        rank.stopping.stop(frame, "crash", lease=lease, crash=Crash(error, describe(error), ends))


def describe(error: BaseException) -> str:
    """Return the type and the text of an exception in one line, truncated to MAX_DETAIL."""
    try:
        text = str(error)
    except BaseException as worse:
        text = f"its str raises {type(worse).__name__}"
    line = " ".join(f"{type(error).__name__}: {text}".split()) if text else type(error).__name__
    line = line.encode("utf-8", "backslashreplace").decode()
    return line if len(line) <= MAX_DETAIL else f"{line[:MAX_DETAIL]}…"


def _innermost(traceback: TracebackType | None) -> FrameType | None:
    """Return the innermost frame of a traceback that is not the agent's."""
    found = None
    while traceback is not None:
        if not is_own(traceback.tb_frame):
            found = traceback.tb_frame
        traceback = traceback.tb_next
    return found


class _StderrShown:
    """Context in which ``sys.stderr`` is the real stderr while a rank is kept; text in torch's buffer is written first.

    Once torch has a process group, it replaces stderr by a buffer while it calls other exception hooks. It writes the
    buffer only when they return.
    """

    def __enter__(self) -> None:
        self._buffer = sys.stderr
        own = sys.__stderr__
        if isinstance(self._buffer, io.StringIO) and own is not None:
            own.write(self._buffer.getvalue())
            own.flush()
            self._buffer.seek(0)
            self._buffer.truncate()
            sys.stderr = own

    def __exit__(self, *_error: object) -> None:
        sys.stderr = self._buffer


class _Terminating:
    """Context while a rank is kept, in which SIGTERM does not end the process but is reported.

    It has an effect only in the main thread, and only if a launcher has started the rank.

    A launcher sends SIGTERM to all ranks when one rank has failed, and SIGKILL a little later. Until the SIGKILL a user
    can inspect the crash.
    """

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._former: Any = None
        self._taken = False

    def __enter__(self) -> None:
        # If no launcher has started the rank, a person has sent the signal, and the process must end.
        if threading.current_thread() is threading.main_thread() and self._rank.membership.is_launched:
            self._former = signal.signal(signal.SIGTERM, self._report)
            self._taken = True

    def __exit__(self, *_error: object) -> None:
        if self._taken:
            signal.signal(signal.SIGTERM, self._former if self._former is not None else signal.SIG_DFL)

    def _report(self, _number: int, _frame: FrameType | None) -> None:
        # The report is made in another thread: this handler may have interrupted code of the agent that holds a lock,
        # and _report_grace would wait for this lock forever.
        own_thread(self._report_grace, "dbg-agent-sigterm").start()

    def _report_grace(self) -> None:
        launcher = self._rank.membership.identity.launcher
        name = launcher if launcher in GRACE else "its launcher"
        limit = self._rank.limits.terminated(name, GRACE.get(launcher, 0.0))
        sentence = f"{self._rank.address} {limit.text}"
        write_stderr(sentence)
        self._rank.broker.send(clamp(Notice, text=sentence))
