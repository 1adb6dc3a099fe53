"""Detection and interruption of long work that code of the program does for a debugger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.stop.stops import SLOW_STEP_SECONDS, Stops


class Busy:
    """The work that code of the program does for the debugger of the current stop; long work is reported.

    The debugger's own work, such as drawing on a busy host, is not included, because it always ends.
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
        self._begun = 0
        """The number of the latest piece of work, by which a timer recognises the piece that it was started for."""
        self._ticket = 0
        self.is_working = False
        """Whether code of the program works for the debugger now; may be read from any thread."""

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the debugger's work, from any thread; do nothing while it waits or draws."""
        self._interruptible.interrupt(self._ticket)

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
        """Treat this context as the program's work, and let :meth:`interrupt` raise KeyboardInterrupt in it."""
        # The start and end below use locks of the link's thread, so no interrupt may be raised there.
        with self._interruptible.suspended():
            with self._lock:
                self._begun += 1
                self.is_working = True
            self._call_later(SLOW_STEP_SECONDS, partial(self._check, self._begun))
            try:
                with self.interruptible():
                    yield
            finally:
                with self._lock:
                    self.is_working = False
                    self._stops.work_is_over()

    def _check(self, work: int) -> None:
        """Report the rank as running if the piece of work with this number still lasts; runs in the link's thread."""
        with self._lock:
            if self.is_working and self._begun == work:
                self._stops.work_is_slow()
