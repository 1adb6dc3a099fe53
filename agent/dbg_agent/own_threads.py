"""Threads of ours in the program's process: daemons in which every signal is blocked.

Signals are for the program's threads. The kernel gives a signal to any thread that does not block it: the program may
have blocked it in its own threads to wait for it, and a signal taken by a thread of ours ends no wait of the program.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable


def own_thread(target: Callable[[], object], name: str) -> threading.Thread:
    """Return a thread that is still to be started; its ``name`` begins with ``dbg-agent``."""

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        target()

    return threading.Thread(target=run, name=name, daemon=True)


class BoundedThreads:
    """Short-lived threads of ours, ``most`` of them at a time; only one thread starts them."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._running: list[object] = []
        self._pid = os.getpid()

    def start(self, work: Callable[[], object]) -> bool:
        """Do some work in a thread of its own; return False, with nothing done, while as many as allowed work.

        Raise RuntimeError, with nothing done, if the system allows no more threads.
        """
        if self._pid != os.getpid():
            # In a forked child the threads of the parent do not exist, so none of them would ever end here.
            self._running, self._pid = [], os.getpid()
        running, one = self._running, object()
        if len(running) >= self._most:
            return False

        def run() -> None:
            try:
                work()
            finally:
                running.remove(one)

        running.append(one)
        try:
            own_thread(run, self._name).start()
        except BaseException:
            running.remove(one)
            raise
        return True
