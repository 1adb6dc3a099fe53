"""Raise KeyboardInterrupt in work of ours that takes too long, wherever its thread is, and never outside of it."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPT_SIGNAL = signal.SIGRTMIN + 6 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
"""Interrupts work of ours in the main thread. Its handler is there only while that runs; no launcher uses it."""

AGAIN_SECONDS = 0.1
"""Seconds after which a signal is sent again that nobody has handled: one that comes just before a wait begins does not
end that wait."""


class Interruptible:
    """Know which thread does such work; one at a time, as a rank has one stop."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], None]) -> None:
        self._call_later = call_later
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._ticket = 0
        self._wanted = False

    @contextmanager
    def running(self) -> Iterator[int]:
        """Let :meth:`interrupt` raise KeyboardInterrupt in this context; yields the ticket to do so with."""
        if self._thread is not None:
            # Work in the middle of work is a part of that.
            yield self._ticket
            return
        in_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(INTERRUPT_SIGNAL, self._raise) if in_main else None
        with self._lock:
            self._ticket += 1
            self._thread, self._wanted = threading.get_ident(), False
        try:
            yield self._ticket
        finally:
            with self._lock:
                self._thread, self._wanted = None, False
            if in_main:
                signal.signal(INTERRUPT_SIGNAL, before if before is not None else signal.SIG_DFL)

    def interrupt(self, ticket: int) -> None:
        """Raise KeyboardInterrupt in the work of that ticket, if it still runs; from any thread."""
        # Under the lock, so that the handler is still there when the signal arrives: its default ends the process.
        with self._lock:
            if self._thread is None or self._ticket != ticket:
                return
            if self._thread != threading.main_thread().ident:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(KeyboardInterrupt)
                )
                return
            self._wanted = True
            signal.pthread_kill(self._thread, INTERRUPT_SIGNAL)
        self._call_later(AGAIN_SECONDS, lambda: self._again(ticket))

    def _again(self, ticket: int) -> None:
        with self._lock:
            if not self._wanted or self._ticket != ticket:
                return
        self.interrupt(ticket)

    def _raise(self, _number: int, _frame: FrameType | None) -> None:
        # Without the lock, which the interrupted thread may hold itself.
        if self._wanted:
            self._wanted = False
            raise KeyboardInterrupt
