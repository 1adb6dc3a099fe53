"""Keep a rank that crashed: its uncaught exception is a stop, and then it exits as it would have.

The former hooks go first, so that the traceback is in the log whatever happens here. Exceptions that a framework
catches, ``os._exit`` and fatal signals never come by.
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

from dbg_wire.errors import printable
from dbg_wire.messages import Notice
from dbg_wire.records import fitted

from ..stderr import say
from ..stop.crash import Crash
from ..stop.inbox import ProgramRaised
from ..stop.stacks import is_own

if TYPE_CHECKING:
    from ..rank.rank import Rank

MAX_DETAIL = 300
"""Characters of the exception in a list of ranks."""

GRACE = {"torchrun": 30, "slurm": 30, "openmpi": 1}
"""Seconds from a launcher's SIGTERM to its SIGKILL, as measured; others have their own, and end a rank soon."""

PASSING = (KeyboardInterrupt, SystemExit)
"""Not crashes: somebody wanted an end."""

CUDA_HINT = "the traceback may be late: CUDA reports errors at a later call, unless CUDA_LAUNCH_BLOCKING=1"

_Connect = Callable[[], "Rank | None"]
"""How to have this rank connected; None if there is no broker, or if it is a launcher."""


class CrashHooks:
    """Stand behind the hooks of the interpreter that see what nobody has caught."""

    def __init__(
        self, connect: _Connect, note: Callable[[BaseException], None], end: Callable[[], None], lease: float
    ) -> None:
        self._connect = connect
        self._note = note
        self._end = end
        self._lease = lease
        self._former: tuple[Any, Any, Any] | None = None

    def install(self) -> None:
        """Take the hooks; again does nothing."""
        if self._former is not None:
            return
        import traceback

        self._former = sys.excepthook, threading.excepthook, traceback.print_exc
        sys.excepthook = self._main_hook
        threading.excepthook = self._thread_hook
        # What `multiprocessing` does with an exception of its child: it has no hook, and calls this.
        traceback.print_exc = self._print_exc

    def restore(self) -> None:
        """Give the hooks back, but those that somebody else has taken since."""
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
            # Such a child ends by os._exit, and nothing else would say goodbye.
            self._end()

    def _keep(self, error: BaseException, traceback: TracebackType | None, ends: str) -> None:
        with suppress(Exception):
            self._note(error)
        # Whoever types Ctrl-C wants it to end, which it does; out of a hook, that would be printed as our fault.
        with suppress(KeyboardInterrupt):
            keep(self._connect, error, traceback, self._lease, ends)


def _is_bootstrap(frame: FrameType) -> bool:
    """Tell whether this is where ``multiprocessing`` ends a child after an exception."""
    return frame.f_code.co_name == "_bootstrap" and frame.f_globals.get("__name__") == "multiprocessing.process"


def keep(
    connect: _Connect, error: BaseException, traceback: TracebackType | None, lease: float, ends: str = ""
) -> None:
    """Stop the calling thread where ``error`` was raised, for ``lease`` seconds unless somebody attaches.

    ``ends`` says what ends by the exception afterwards; nothing does where the program has caught it. Nothing of ours
    comes out.
    """
    if isinstance(error, PASSING):
        return
    try:
        rank = connect() if lease > 0 else None
        frame = _innermost(traceback)
        if rank is None or frame is None:
            return
        rank.stopping.end_step()
        if rank.stops.is_mine():
            return
        _keep(rank, error.with_traceback(traceback), frame, lease, ends)
    except ProgramRaised as raised:
        to_raise = raised.error
    except Exception as fault:
        # The first promise: nothing of ours changes how a job ends.
        say(f"the crashed rank can't be kept ({type(fault).__name__}: {printable(str(fault))})")
        return
    else:
        return
    raise to_raise


def _keep(rank: Rank, error: BaseException, frame: FrameType, lease: float, ends: str) -> None:
    detail = describe(error)
    if "CUDA" in detail:
        say(f"{rank.address}: {CUDA_HINT}")
        detail = f"{detail} ({CUDA_HINT})"
    with _Terminating(rank, detail):
        rank.stop(frame, "crash", lease=lease, detail=detail, crash=Crash(error, ends))


def describe(error: BaseException) -> str:
    """Return an exception in one line."""
    try:
        text = str(error)
    except BaseException as worse:
        text = f"its str raises {type(worse).__name__}"
    line = " ".join(f"{type(error).__name__}: {text}".split()) if text else type(error).__name__
    line = line.encode("utf-8", "backslashreplace").decode()
    return line if len(line) <= MAX_DETAIL else f"{line[:MAX_DETAIL]}…"


def _innermost(traceback: TracebackType | None) -> FrameType | None:
    """Return the frame in which an exception was raised, ours left out."""
    found = None
    while traceback is not None:
        if not is_own(traceback.tb_frame):
            found = traceback.tb_frame
        traceback = traceback.tb_next
    return found


class _StderrShown:
    """Have what was written to stderr be there while a rank is kept.

    Once torch has a process group, it calls other hooks with a buffer for stderr, and writes that when they are done.
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
    """Have SIGTERM reported while a crash is kept, instead of ending it; in the main thread alone.

    Launchers send it to all ranks as soon as one of them has failed, and SIGKILL a little later: what is left of that
    time belongs to whoever looks.
    """

    def __init__(self, rank: Rank, detail: str) -> None:
        self._rank = rank
        self._detail = detail
        self._former: Any = None
        self._taken = False

    def __enter__(self) -> None:
        # Without a launcher it was a person, who wants the process to end.
        if threading.current_thread() is threading.main_thread() and self._rank.is_launched:
            self._former = signal.signal(signal.SIGTERM, self._report)
            self._taken = True

    def __exit__(self, *_error: object) -> None:
        if self._taken:
            signal.signal(signal.SIGTERM, self._former if self._former is not None else signal.SIG_DFL)

    def _report(self, _number: int, _frame: FrameType | None) -> None:
        # The handler may have interrupted our own code, in the middle of what takes the same locks.
        threading.Thread(target=self._tell, name="dbg-agent-sigterm", daemon=True).start()

    def _tell(self) -> None:
        launcher = self._rank.identity.launcher
        grace = GRACE.get(launcher)
        when = f"in about {grace} s" if grace is not None else "soon"
        who = launcher if grace is not None else "its launcher"
        told = f"got SIGTERM while it is kept after a crash; {who} ends it {when}"
        say(f"{self._rank.address} {told}")
        self._rank.send(fitted(Notice, text=f"{self._rank.address} {told}"))
        self._rank.stops.note(f"{self._detail}; {told}")
