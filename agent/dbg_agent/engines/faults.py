"""What a debugger does in the program's thread: its faults, its warnings, and its work, which can be interrupted.

A fault of a debugger's view is told from an exception that belongs to the program and must be passed on.
"""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import CodeType
from typing import TYPE_CHECKING, cast

from dbg_agent.rank.console import UNWINDING
from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.stop.stacks import is_own
from dbg_agent.stop.stops import SLOW_STEP_SECONDS
from dbg_wire.errors import printable

if TYPE_CHECKING:
    from dbg_agent.rank.rank import Rank

MAX_WORDS = 200
"""Characters of an error's text that are shown: a line or two."""

DEBUGGER_MODULES = r"(pudb|urwid|urwid_readline|jedi|parso|pygments)(\.|$)"
"""The modules of PuDB and of what it imports, as a pattern."""


def is_fault(error: BaseException) -> bool:
    """Tell whether a debugger's view raised this, or a value that it looked at, or an interrupt from a terminal.

    False for an exception that leaves the debugger on purpose, and for an exception of a signal handler of the
    program: the handler's exception unwinds the program, as it would without the agent.
    """
    if isinstance(error, UNWINDING):
        return False
    if isinstance(error, KeyboardInterrupt):
        return is_interrupt(error)
    return isinstance(error, Exception) or not _comes_from_handler(error)


def is_fault_of_value(error: BaseException) -> bool:
    """Tell the same of an exception that came while code of the program, such as a repr, ran on purpose.

    Every KeyboardInterrupt counts as a fault here: the program's code may raise one itself, and that one can't be told
    from the one that Ctrl-C raises in it.
    """
    return isinstance(error, KeyboardInterrupt) or is_fault(error)


def is_interrupt(error: BaseException) -> bool:
    """Tell whether a terminal has interrupted the command, in any thread."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    # Signal handlers run only in the main thread, so in another thread a KeyboardInterrupt is the terminal's.
    elsewhere = threading.current_thread() is not threading.main_thread()
    return elsewhere or Interruptible.on_signal.__code__ in _codes_in_traceback(error)


def words_of(error: BaseException) -> str:
    """Return the error as part of a sentence, even if its own ``__str__`` fails."""
    name = type(error).__name__
    if is_interrupt(error):
        return "it was interrupted"
    try:
        text = str(error).partition("\n")[0]
    except BaseException as worse:
        if not is_fault_of_value(worse):
            raise
        text = "its text can't be had"
    return printable(f"{name}: {text}" if text else name, MAX_WORDS)


def _comes_from_handler(error: BaseException) -> bool:
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {getattr(handler, "__code__", None) for handler in handlers}
    return any(code in codes for code in _codes_in_traceback(error, own=False))


def _codes_in_traceback(error: BaseException, *, own: bool = True) -> list[CodeType]:
    codes = []
    traceback = error.__traceback__
    while traceback is not None:
        if own or not is_own(traceback.tb_frame):
            codes.append(traceback.tb_frame.f_code)
        traceback = traceback.tb_next
    return codes


@contextmanager
def unwarned() -> Iterator[None]:
    """Ignore the debugger's own deprecation warnings, even in a program that turns warnings into errors.

    One filter for the debugger's modules is put in front and taken out again. ``warnings.catch_warnings`` would save
    and restore all filters of the process, and lose filters if another thread does the same meanwhile.
    """
    warnings.filterwarnings("ignore", module=DEBUGGER_MODULES)
    added = warnings.filters[0]
    try:
        yield
    finally:
        with suppress(ValueError):
            list.remove(cast("list[object]", warnings.filters), added)


class Busy:
    """Since when code of the program works for the debugger of the current stop; that takes long in a running rank.

    What the debugger does by itself, such as drawing on a busy host, doesn't count: it ends without anybody's help.
    """

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._lock = threading.RLock()
        self._since: float | None = None
        self._ticket = 0
        self._is_watched = False

    @property
    def is_working(self) -> bool:
        """Tell whether code of the program works for the debugger now; from any thread."""
        return self._since is not None

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in what the debugger does, from any thread; do nothing while it waits or draws."""
        self._rank.interruptible.interrupt(self._ticket)

    # ------------------------------------------------------------------------------------------ in the stopped thread

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let :meth:`interrupt` raise KeyboardInterrupt in this context, except where interrupts are suspended."""
        outer = self._ticket
        try:
            with self._rank.interruptible.running() as self._ticket:
                yield
        finally:
            self._ticket = outer

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count this context as the program's work, and let :meth:`interrupt` raise KeyboardInterrupt in it."""
        # The link's thread takes the same locks as beginning and end, so no interrupt may come in these.
        with self._rank.interruptible.suspended():
            self._begin()
            try:
                with self.interruptible():
                    yield
            finally:
                self._end()

    def goes_on(self) -> None:
        """Count what follows in :meth:`working` as other work: many calls of the program that are short aren't long."""
        self._since = time.monotonic()
        if self._rank.stops.is_busy:
            with self._rank.interruptible.suspended():
                self._end()
                self._begin()

    def _begin(self) -> None:
        with self._lock:
            self._since = time.monotonic()
            is_watched, self._is_watched = self._is_watched, True
        if not is_watched:
            self._rank.call_later(SLOW_STEP_SECONDS, self._check_duration)

    def _end(self) -> None:
        with self._lock:
            self._since = None
            self._rank.stops.work_is_over()

    # -------------------------------------------------------------------------------------------- in the link's thread

    def _check_duration(self) -> None:
        """Check whether the work takes long by now; one timer serves all the work that is begun in between."""
        with self._lock:
            left = self._since + SLOW_STEP_SECONDS - time.monotonic() if self._since is not None else 0.0
            self._is_watched = left > 0
            if self._since is not None and left <= 0:
                self._rank.stops.work_is_slow()
        if left > 0:
            self._rank.call_later(left, self._check_duration)
