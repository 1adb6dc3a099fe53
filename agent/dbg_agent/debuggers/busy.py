"""The work of the program for a debugger: whether it takes long, and how it is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from dbg_agent.stop.interruptible import Interruptible
from dbg_agent.stop.stops import SLOW_STEP_SECONDS, Stops


class Busy:
    """Whether code of the program works for the debugger of the current stop: the report says so if that takes long.

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
        self._begun = 0
        """How many works have begun."""
        self._ticket = 0
        self.is_working = False
        """Whether code of the program works for the debugger now; to be read from any thread."""

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in what the debugger does, from any thread; do nothing while it waits or draws."""
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
        """Count this context as the program's work, and let :meth:`interrupt` raise KeyboardInterrupt in it."""
        # The link's thread takes the same locks as beginning and end, so no interrupt may come in these.
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
        """Report the rank as running if that work still lasts; in the link's thread."""
        with self._lock:
            if self.is_working and self._begun == work:
                self._stops.work_is_slow()
