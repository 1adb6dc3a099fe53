"""Rest of the link's thread during a fork of the program, so that the child finds nothing half done.

A forked child has one thread. A lock that another thread held at the fork is held in the child for ever. OpenSSL has
locks of this kind, and gives Python's lock back while it takes them. The C library's name look-up and imports have
them, too. A child that then speaks TLS itself would hang, even if it never becomes a rank.
"""

from __future__ import annotations

import selectors
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectors import SelectorKey

IMPORT_SECONDS = 5.0
"""Seconds that a fork waits for the link's thread to import asyncio and websockets. The import takes less than one
second, and longer only if it waits for a module that the forking thread is importing itself."""

ROUND_SECONDS = 1.0
"""Seconds that a fork waits for one round of the event loop. A round takes milliseconds, and longer only if a name
server does not answer, or if the round waits for a lock that the forking thread holds."""


class ForkSafety:
    """A lock that the link's thread holds except while it waits for events, and that a forking thread holds in a fork.

    Both inner locks are reentrant: the link's thread may fork itself, and a signal handler may fork within a fork.
    """

    def __init__(self) -> None:
        self._busy = threading.RLock()
        # Python's locks are not fair: a thread that releases a lock and takes it again leaves others no chance.
        self._turn = threading.RLock()
        self._round = 0
        self._waited_in_vain: int | None = None

    # ------------------------------------------------------------------------------------------- in the link's thread

    def __enter__(self) -> None:
        with self._turn:
            self._busy.acquire()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._busy.release()

    def release_while_waiting(self) -> None:
        """Rest until :meth:`reacquire`."""
        self._busy.release()

    def reacquire(self) -> None:
        """Wait until no thread forks, and be busy again."""
        with self._turn:
            self._busy.acquire()
        self._round += 1

    # ------------------------------------------------------------------------------------- in the thread that forks

    def before_fork(self) -> None:
        """Wait until the link's thread rests, and keep it at rest; go on without that after a bounded time.

        A fork waits in vain for a round only once: later forks don't wait for the same round again.
        """
        this_round = self._round
        bound = IMPORT_SECONDS if this_round == 0 else ROUND_SECONDS
        deadline = time.monotonic() + (0.0 if this_round == self._waited_in_vain else bound)
        if self._turn.acquire(timeout=max(0.0, deadline - time.monotonic())):
            if self._busy.acquire(timeout=max(0.0, deadline - time.monotonic())):
                return
            self._turn.release()
        self._waited_in_vain = this_round

    def after_fork(self) -> None:
        """Let the link's thread go on; in the parent, by the thread that has forked."""
        # release() raises if this thread has waited in vain.
        with suppress(RuntimeError):
            self._turn.release()
            self._busy.release()


class ForkSafeSelector(selectors.PollSelector):
    """A selector whose thread is at rest while it waits for events.

    It has no descriptor, as epoll would: closing one that the program has closed and opened anew would take a file of
    the program. The link has three descriptors, for which poll is as fast.
    """

    def __init__(self, rest: ForkSafety) -> None:
        super().__init__()
        self._rest = rest

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return what is ready, after ``timeout`` seconds at most."""
        self._rest.release_while_waiting()
        try:
            return super().select(timeout)
        finally:
            self._rest.reacquire()
