"""Daemon threads of the agent in the program's process, with all signals blocked, and waits with a time limit.

Signals are for the program's threads. The kernel delivers a signal to any thread that does not block it. The program
may block a signal in its own threads to wait for it. If a thread of the agent received that signal, the program's wait
would not end.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

SIGNAL_SECONDS = 1.0
"""Maximum time in seconds until a pending signal's handler runs. CPython calls a signal's handler when the main thread
reaches its next instruction. A signal may arrive just before a wait of the main thread, or the kernel may deliver it to
another thread. Then it does not end the wait. So waits wake up once a second, which costs 20 µs."""


def own_thread(target: Callable[[], object], name: str) -> threading.Thread:
    """Return a thread that is not started yet; its ``name`` begins with ``dbg-agent``."""

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        thread = threading.get_native_id()
        _traffic.start(thread)
        try:
            target()
        finally:
            _traffic.end(thread)

    return threading.Thread(target=run, name=name, daemon=True)


class _Traffic:
    """The agent's live threads, and the bytes that its ended threads have read and written."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Reset everything: a forked child has no thread of its parent, and the kernel counts its bytes from zero."""
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._living: set[int] = set()
        self._ended = Counter[str]()

    def start(self, thread: int) -> None:
        if self._pid != os.getpid():
            self.renew()
        with self._lock:
            self._living.add(thread)

    def end(self, thread: int) -> None:
        with self._lock:
            self._living.discard(thread)
            self._ended += _traffic_of(thread)

    def whole(self) -> Counter[str]:
        with self._lock:
            return sum(map(_traffic_of, self._living), self._ended)


_traffic = _Traffic()


def own_traffic() -> Counter[str]:
    """Return the numbers of bytes that the agent's threads have read and written, by the kernel's names for them.

    Threads of the program are not included.
    """
    return _traffic.whole()


def _traffic_of(thread: int) -> Counter[str]:
    """Return the kernel's counters for a thread of this process, or an empty counter if they can't be read."""
    try:
        with open(f"/proc/self/task/{thread}/io") as file:  # noqa: PTH123 - no pathlib in a rank
            return Counter({name: int(amount) for name, _, amount in (line.partition(": ") for line in file)})
    except (OSError, ValueError):
        return Counter()


_T = TypeVar("_T")


class BoundedThreads:
    """Short-lived threads of the agent, at most ``most`` at a time. Only one thread may call :meth:`start`."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self.most = name, most
        self._running: list[object] = []
        self._pid = os.getpid()

    def start(self, work: Callable[[], object], ended: Callable[[], object] = lambda: None) -> bool:
        """Run ``work`` in a new thread; return False and do nothing if ``most`` threads are running.

        ``ended`` is called in that thread when another thread may be started. Raise RuntimeError and do nothing if the
        system allows no more threads.
        """
        if self._pid != os.getpid():
            # The parent's threads do not exist in a forked child, so none of them would ever end here.
            self._running, self._pid = [], os.getpid()
        running, one = self._running, object()
        if len(running) >= self.most:
            return False

        def run() -> None:
            try:
                work()
            finally:
                running.remove(one)
                ended()

        running.append(one)
        try:
            own_thread(run, self._name).start()
        except BaseException:
            running.remove(one)
            raise
        return True

    def within(self, seconds: float, call: Callable[[], _T], otherwise: _T) -> _T:
        """Return the result of ``call``, or ``otherwise`` after so many seconds or if no thread can be started now."""
        answers: list[_T] = []
        is_done = threading.Event()

        with suppress(RuntimeError):
            if self.start(lambda: answers.append(call()), is_done.set):
                is_done.wait(seconds)
        return answers[0] if answers else otherwise


def within(seconds: float, call: Callable[[], _T], otherwise: _T) -> _T:
    """Run ``call`` in another thread and return its result, or return ``otherwise`` after so many seconds.

    ``call`` must not raise.
    """
    return BoundedThreads("dbg-agent-asking", 1).within(seconds, call, otherwise)


def wait_for(condition: threading.Condition, is_so: Callable[[], bool], seconds: float | None = None) -> bool:
    """Wait on a condition that the caller holds until ``is_so()`` is true; return False after ``seconds``.

    Exceptions raised by a signal handler of the program propagate within SIGNAL_SECONDS.
    """
    end = None if seconds is None else time.monotonic() + seconds
    while not is_so():
        left = SIGNAL_SECONDS if end is None else min(SIGNAL_SECONDS, end - time.monotonic())
        if left <= 0:
            return False
        condition.wait(left)
    return True
