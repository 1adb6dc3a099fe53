"""When the link's thread is at rest, so that a fork of the program leaves nothing half done in the child.

A forked child has one thread, and a lock that another one held at that moment is held there for ever. OpenSSL has such
locks, and gives Python's lock back while it takes them; the C library's name look-up and half-done imports are no
better. A child that then speaks TLS itself would hang, whether it ever is a rank or not.
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
"""Seconds that a fork waits for the link's thread to import asyncio and websockets, which takes below one; longer only
if that waits for a module which the forking thread is about to import itself."""

ROUND_SECONDS = 1.0
"""Seconds that a fork waits for one round of the event loop, which takes milliseconds; longer only if a name server
does not answer, or if the round waits for something that the forking thread holds."""


class ForkSafety:
    """Be entered by the link's thread for all that it does, and left for as long as it waits for events.

    Whoever forks takes its place meanwhile. Both locks are reentrant: the link's thread may fork itself, and a signal
    handler may fork within a fork.
    """

    def __init__(self) -> None:
        self._busy = threading.RLock()
        # Python's locks are not fair: a thread that gives one back and takes it again leaves nobody else a chance.
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

    def begin(self) -> None:
        """Be at rest until :meth:`end`."""
        self._busy.release()

    def end(self) -> None:
        """Be busy again, once nobody forks."""
        with self._turn:
            self._busy.acquire()
        self._round += 1

    # ------------------------------------------------------------------------------------- in the thread that forks

    def before_fork(self) -> None:
        """Wait until the link's thread is at rest, and keep it there; go on without that after a bounded time.

        A round that was waited for in vain is not waited for again, however many forks there are.
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
        # Raised if this thread has waited in vain.
        with suppress(RuntimeError):
            self._turn.release()
            self._busy.release()


class ForkSafeSelector(selectors.DefaultSelector):
    """Wait for events as any selector does, the thread being at rest while it waits."""

    def __init__(self, rest: ForkSafety) -> None:
        super().__init__()
        self._rest = rest

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return what is ready, after ``timeout`` seconds at most."""
        self._rest.begin()
        try:
            return super().select(timeout)
        finally:
            self._rest.end()
