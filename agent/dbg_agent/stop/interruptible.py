"""Interrupts of the agent's work in any thread: KeyboardInterrupt is raised in that work, and never outside of it.

The exception is also not raised in code of the agent that may hold a lock. Python 3.14 checks for signals between a
lock's ``__enter__`` and the body of the ``with``, and an exception there would leave the lock held forever.
"""

from __future__ import annotations

import ctypes
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from dbg_agent.frames.stacks import all_frames, call_it, holds_no_lock

INTERRUPT_SIGNAL = signal.SIGRTMIN + 6 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
"""Signal that interrupts the agent's work in the main thread. No launcher uses it. Its handler is set only during the
work."""

AGAIN_SECONDS = 0.1
"""Time in seconds after which an interrupt that was not raised is tried again. The thread may have held a lock, and a
signal that arrives just before a wait begins does not end that wait."""


class Interruptible:
    """The threads that do interruptible work, and the tickets of that work."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], None]) -> None:
        self._call_later = call_later
        self._lock = threading.RLock()
        self._last = 0
        self._tickets: dict[int, tuple[int, ...]] = {}
        """The tickets whose work may be interrupted in each thread, outermost first. A change assigns a whole tuple at
        once, so that the signal's handler sees either the old tickets or the new ones."""
        self._wanted: dict[int, int] = {}
        """For each thread the ticket of an interrupt that is requested and not yet raised."""
        self._sent: dict[int, int] = {}
        """For each thread the ticket of its most recent interrupt."""
        self._hooked = 0
        self._former_hook: Callable[[sys.UnraisableHookArgs], object] = sys.__unraisablehook__

    @contextmanager
    def running(self) -> Iterator[int]:
        """Let :meth:`interrupt` raise KeyboardInterrupt in this context; yield the ticket that it needs.

        If the work has just ended, an interrupt may still be raised before this context ends. After the context ends,
        the interrupt is never raised.
        """
        with self._lock:
            self._last += 1
            ticket = self._last
        with self._having(lambda outer: (*outer, ticket)):
            yield ticket

    def within(self, seconds: float, work: Callable[[], None]) -> bool:
        """Run the agent's work for at most so many seconds; return False if it was interrupted.

        Any other KeyboardInterrupt propagates. The work may be complete even if the result is False, because the
        interrupt may arrive at its very end.
        """
        ticket = 0
        try:
            with self.running() as ticket:
                self._call_later(seconds, lambda: self.interrupt(ticket))
                work()
        except KeyboardInterrupt:
            if not self.was_interrupted(ticket):
                raise
            return False
        return True

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Block interrupts in this context, which may run other work or the program's own code."""
        if threading.get_ident() not in self._tickets:
            yield
            return
        with self._having(lambda _: ()):
            yield

    def runs(self, ticket: int) -> bool:
        """Return True if the work of that ticket can be interrupted."""
        return self._thread_of(ticket) is not None

    def interrupt(self, ticket: int) -> None:
        """Raise KeyboardInterrupt in the work of that ticket, if it still runs; may be called from any thread."""
        # The lock keeps the handler in place until the signal arrives, because the signal's default action ends the
        # process.
        with self._lock:
            thread = self._thread_of(ticket)
            if thread is None:
                return
            self._sent[thread] = self._wanted[thread] = ticket
            if thread != threading.main_thread().ident:
                if _raise_in_lockless(thread):
                    self._wanted.pop(thread, None)
                    return
            # The evaluated code may have removed the agent's handler, and the signal's default action ends the process.
            elif signal.getsignal(INTERRUPT_SIGNAL) == self.on_signal:
                signal.pthread_kill(thread, INTERRUPT_SIGNAL)
        self._call_later(AGAIN_SECONDS, lambda: self._again(ticket))

    def was_interrupted(self, ticket: int) -> bool:
        """Return True if the calling thread's most recent interrupt was for that ticket."""
        return self._sent.get(threading.get_ident()) == ticket

    def _thread_of(self, ticket: int) -> int | None:
        return next((thread for thread, tickets in tuple(self._tickets.items()) if ticket in tickets), None)

    def _again(self, ticket: int) -> None:
        if ticket in self._wanted.values():
            self.interrupt(ticket)

    @contextmanager
    def _having(self, tickets: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Iterator[None]:
        thread = threading.get_ident()
        outer = self._tickets.get(thread)
        takes_signal = outer is None and threading.current_thread() is threading.main_thread()
        before = signal.signal(INTERRUPT_SIGNAL, self.on_signal) if takes_signal else None
        self._hook()
        self._tickets[thread] = tickets(outer or ())
        try:
            yield
        finally:
            # From here on no interrupt is raised in the main thread, not even while the lock below is held.
            self._tickets[thread] = outer or ()
            try:
                self._settle(thread, outer or ())
            finally:
                self._unhook()
                if outer is None:
                    del self._tickets[thread]
                if takes_signal:
                    _give_back(before)

    def _hook(self) -> None:
        with self._lock:
            self._hooked += 1
            if self._hooked == 1:
                self._former_hook, sys.unraisablehook = sys.unraisablehook, self._could_not_be_raised

    def _unhook(self) -> None:
        with self._lock:
            self._hooked -= 1
            if self._hooked == 0 and sys.unraisablehook == self._could_not_be_raised:
                sys.unraisablehook = self._former_hook

    def _could_not_be_raised(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Interrupt work again if the interrupt was raised in a finalizer or a callback of the garbage collector.

        Python drops an exception there, and would print it in the job's log.
        """
        ticket = self._sent.get(threading.get_ident(), 0)
        if not isinstance(unraisable.exc_value, KeyboardInterrupt) or not self.runs(ticket):
            self._former_hook(unraisable)
            return
        self._call_later(AGAIN_SECONDS, lambda: self.interrupt(ticket))

    def _settle(self, thread: int, left: tuple[int, ...]) -> None:
        """Withdraw an interrupt of ended work if the interrupt is not raised yet.

        Another thread may be requesting such an interrupt now. It holds the lock meanwhile, so wait for the lock first.
        """
        with self._lock:
            is_over = self._sent.get(thread, 0) not in (0, *left)
        if is_over and thread != threading.main_thread().ident:
            _withdraw_interrupt(thread)

    def raise_wanted(self) -> None:
        """Raise a requested KeyboardInterrupt, for a function of the agent that has just released its lock.

        The program may call the function so often that the signal almost always arrives while the function runs. The
        signal's handler raises nothing there, because the function may hold its lock. So the function calls this method
        after the release. The method raises the exception if the function's caller holds no lock.
        """
        if threading.get_ident() in self._wanted:
            self.on_signal(INTERRUPT_SIGNAL, sys._getframe(2))

    def on_signal(self, _number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt if an interrupt of this thread's work is requested; handler of the signal."""
        # The handler takes no lock, because the interrupted thread may hold it.
        thread = threading.get_ident()
        if frame is not None and self._wanted.get(thread) in self._tickets.get(thread, ()) and holds_no_lock(frame):
            self._wanted.pop(thread, None)
            raise KeyboardInterrupt


class _TakenBack(BaseException):
    """Raised and caught in place of an interrupt that arrived too late."""


def _raise_in_lockless(thread: int) -> bool:
    """Raise KeyboardInterrupt in another thread; do nothing and return False if it may hold a lock of the agent.

    The thread raises the exception at the latest when its next function starts, so it can't acquire a lock of the agent
    first.
    """
    frame = all_frames().get(thread)
    if frame is None or not holds_no_lock(frame):
        return False
    place, error = frame.f_lasti, _async_error(thread, KeyboardInterrupt)
    # CPython switches threads only after a call in Python code, at a backward jump and at the start of a function.
    # `map` calls `sys._current_frames` from C. From there to the call that sets the exception, the code below reaches
    # none of these points. So the other thread does not move between the two calls.
    was_on, _, frames, _ = map(call_it, (gc.isenabled, gc.disable, sys._current_frames, gc.enable))
    is_there = thread in frames and frames[thread] is frame and frame.f_lasti == place
    if is_there:
        _set_async_error(*error)
    if not was_on:
        gc.disable()
    return is_there


_set_async_error = ctypes.pythonapi.PyThreadState_SetAsyncExc


def _async_error(thread: int, error: type[BaseException]) -> tuple[ctypes.c_ulong, Any]:
    return ctypes.c_ulong(thread), ctypes.py_object(error)


def _withdraw_interrupt(thread: int) -> None:
    """Withdraw an interrupt that the calling thread, ``thread``, has not raised yet.

    Another exception is raised and caught in its place. Setting NULL would also withdraw the interrupt. But in CPython
    up to 3.12, setting an exception also sets a flag of the whole process: threads must check for such an exception.
    CPython clears the flag only when a thread raises the exception. With NULL the flag would stay set forever. In 3.11
    each call of a traced function would then check for the exception again and again, and never start (DO_TRACING in
    Python/ceval.c).
    """
    with suppress(_TakenBack):
        _set_async_error(*_async_error(thread, _TakenBack))
        while True:
            pass


def _give_back(before: Any) -> None:
    # The signal may still be pending if the program blocks it. SIG_IGN drops a pending signal; the signal's default
    # action would end the process.
    signal.signal(INTERRUPT_SIGNAL, signal.SIG_IGN)
    signal.signal(INTERRUPT_SIGNAL, before if before is not None else signal.SIG_DFL)
