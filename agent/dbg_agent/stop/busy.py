"""Whether the open debugger works, for example on the program's values, or waits for a key. Work can be interrupted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from .interruptible import Interruptible
from .stops import SLOW_STEP_SECONDS, Stops


class BusyRank(Protocol):
    """The parts of a rank that this module needs."""

    stops: Stops
    interruptible: Interruptible

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the link's thread after some seconds."""


class Busy:
    """Since when the debugger of the current stop works; the rank is reported as running if that takes long."""

    def __init__(self, rank: BusyRank) -> None:
        self._rank = rank
        self._lock = threading.RLock()
        self._since: float | None = None
        self._ticket = 0
        self._is_watched = False

    @property
    def is_working(self) -> bool:
        """Tell whether the debugger works now; from any thread."""
        return self._since is not None

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the debugger's work, from any thread; do nothing while the debugger waits."""
        if self._since is not None:
            self._rank.interruptible.interrupt(self._ticket)

    # ------------------------------------------------------------------------------------------ in the stopped thread

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count as working, and be interruptible, in this context, except within :meth:`waiting`."""
        self._begin()
        try:
            with self._rank.interruptible.running() as self._ticket:
                yield
        finally:
            self._end()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count as waiting in this context; no interrupt is raised in it."""
        if self._since is None:
            yield
            return
        with self._rank.interruptible.suspended():
            self._end()
            try:
                yield
            finally:
                self._begin()

    def _begin(self) -> None:
        with self._lock:
            self._since = time.monotonic()
            is_watched, self._is_watched = self._is_watched, True
        if not is_watched:
            self._rank.call_later(SLOW_STEP_SECONDS, self._look)

    def _end(self) -> None:
        with self._lock:
            self._since = None
            self._rank.stops.work_is_over()

    # -------------------------------------------------------------------------------------------- in the link's thread

    def _look(self) -> None:
        """Check whether the work takes long by now; one timer serves all the keys that are typed in between."""
        with self._lock:
            left = self._since + SLOW_STEP_SECONDS - time.monotonic() if self._since is not None else 0.0
            self._is_watched = left > 0
            if self._since is not None and left <= 0:
                self._rank.stops.work_is_slow()
        if left > 0:
            self._rank.call_later(left, self._look)
