"""The work of the program for a debugger: since when it lasts, and how it is interrupted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dbg_agent.stop.stops import SLOW_STEP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dbg_agent.stop.interruptible import Interruptible
    from dbg_agent.stop.stops import Stops


class Busy:
    """Since when code of the program works for the debugger of the current stop; that takes long in a running rank.

    What the debugger does by itself, such as drawing on a busy host, doesn't count: it ends without anybody's help.
    """

    def __init__(
        self,
        interruptible: Interruptible,
        stops: Stops,
        call_later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._interruptible = interruptible
        self._stops = stops
        self._call_later = call_later
        self._lock = threading.RLock()
        self._since: float | None = None
        self._ticket = 0
        self._is_watched = False

    @property
    def is_working(self) -> bool:
        """Return whether code of the program works for the debugger now; from any thread."""
        return self._since is not None

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in what the debugger does, from any thread; do nothing while it waits or draws."""
        self._interruptible.interrupt(self._ticket)

    # ------------------------------------------------------------------------------------------ in the stopped thread

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let :meth:`interrupt` raise KeyboardInterrupt in this context, except where interrupts are suspended."""
        outer = self._ticket
        try:
            with self._interruptible.running() as self._ticket:
                yield
        finally:
            self._ticket = outer

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count this context as the program's work, and let :meth:`interrupt` raise KeyboardInterrupt in it."""
        # The link's thread takes the same locks as beginning and end, so no interrupt may come in these.
        with self._interruptible.suspended():
            self._begin()
            try:
                with self.interruptible():
                    yield
            finally:
                self._end()

    def goes_on(self) -> None:
        """Count what follows in :meth:`working` as other work: many calls of the program that are short aren't long."""
        self._since = time.monotonic()
        if self._stops.is_busy:
            with self._interruptible.suspended():
                self._end()
                self._begin()

    def _begin(self) -> None:
        with self._lock:
            self._since = time.monotonic()
            is_watched, self._is_watched = self._is_watched, True
        if not is_watched:
            self._call_later(SLOW_STEP_SECONDS, self._check_duration)

    def _end(self) -> None:
        with self._lock:
            self._since = None
            self._stops.work_is_over()

    # -------------------------------------------------------------------------------------------- in the link's thread

    def _check_duration(self) -> None:
        """Check whether the work takes long by now; one timer serves all the work that is begun in between."""
        with self._lock:
            left = self._since + SLOW_STEP_SECONDS - time.monotonic() if self._since is not None else 0.0
            self._is_watched = left > 0
            if self._since is not None and left <= 0:
                self._stops.work_is_slow()
        if left > 0:
            self._call_later(left, self._check_duration)
