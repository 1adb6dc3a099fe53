"""Timers of the link's thread, which outlive the event loop that runs them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class Timer:
    """A call, and when it is due on the monotonic clock."""

    __slots__ = ("call", "due")

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due, self.call = due, call


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Have a loop call something soon; from any thread. Do nothing if the loop has ended, even at this very moment."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


class Timers:
    """The calls that are still due; a loop that begins takes over those of the loop before."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: set[Timer] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Have the loop's thread call ``call`` after some seconds; if there is no loop, the next one does."""
        timer = Timer(time.monotonic() + seconds, call)
        with self._lock:
            self._waiting.add(timer)
            loop = self._loop
        if loop is not None:
            call_soon(loop, partial(self._arm, loop, timer))

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let this loop run the timers; in its thread."""
        with self._lock:
            self._loop, waiting = loop, list(self._waiting)
        for timer in waiting:
            self._arm(loop, timer)

    def end(self) -> None:
        """Keep the timers for the next loop."""
        with self._lock:
            self._loop = None

    def _arm(self, loop: asyncio.AbstractEventLoop, timer: Timer) -> None:
        loop.call_later(timer.due - time.monotonic(), self._fire, timer)

    def _fire(self, timer: Timer) -> None:
        with self._lock:
            self._waiting.discard(timer)
        timer.call()
