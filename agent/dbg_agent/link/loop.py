"""The event loop of the link's thread, which touches no descriptor that the program has taken over.

Only the link's thread imports this module, since asyncio is heavy.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from dbg_agent.link.fork_safety import ForkSafeSelector, ForkSafety
from dbg_agent.process.stderr import say
from dbg_dial.tcp import OwnSocket
from dbg_wire.errors import error_line


class LoopLost(Exception):
    """The program has closed the sockets by which other threads wake the loop."""


class LinkLoop(asyncio.SelectorEventLoop):
    """An event loop that ends with LoopLost where the program has closed the descriptors of the loop."""

    _ssock: OwnSocket
    _csock: OwnSocket

    def __init__(self, fork_safety: ForkSafety) -> None:
        self._is_lost = False
        self._watched = _WatchedSelector(fork_safety, self._check)
        super().__init__(self._watched)
        # PYTHONDEVMODE turns this on; asyncio would then complain on the job's stderr of a busy host.
        self.set_debug(False)
        # The default handler logs, and so may wait for a lock that a stopped thread of the program holds.
        self.set_exception_handler(_complain)

    def end(self) -> None:
        """End all tasks and close what the loop has opened; the loop does not run."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True) if tasks else asyncio.sleep(0))
        # An aborted TLS connection closes its socket after a few rounds; Python warns of a socket left open.
        for _ in range(3):
            self.run_until_complete(asyncio.sleep(0))
        self.close()

    def _make_self_pipe(self) -> None:
        # asyncio has no public way to replace the two sockets by which call_soon_threadsafe() wakes the loop.
        super()._make_self_pipe()  # type: ignore[misc]
        self._ssock, self._csock = (OwnSocket(fileno=end.detach()) for end in (self._ssock, self._csock))

    def _check(self) -> None:
        if not self._is_lost and not (self._ssock.is_open() and self._csock.is_open()):
            # The rounds in which the tasks end need no other thread.
            self._is_lost = True
            self._watched.unregister(self._ssock.fileno())
            raise LoopLost("the program has closed descriptors of dbg-agent")


def make_loop(fork_safety: ForkSafety) -> LinkLoop:
    """Return a new loop; raise OSError without free descriptors."""
    # asyncio then can't build a loop either, and complains on stderr of the half-built one.
    for end in socket.socketpair():
        end.close()
    return LinkLoop(fork_safety)


class _WatchedSelector(ForkSafeSelector):
    """A selector that calls ``check`` before it returns."""

    def __init__(self, fork_safety: ForkSafety, check: Callable[[], None]) -> None:
        super().__init__(fork_safety)
        self._check = check

    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        """Return what is ready, after ``timeout`` seconds at most; raise what ``check`` raises."""
        ready = super().select(timeout)
        self._check()
        return ready


def _complain(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    why = error_line(error) if error is not None else "None"
    say(f"{context.get('message', 'a fault')} ({why})")
