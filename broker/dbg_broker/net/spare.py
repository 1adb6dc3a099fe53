"""What the broker keeps in reserve, so that it can still say what it lacks when the system gives it no more.

All methods belong to the event loop's thread.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource
from collections.abc import Callable

from dbg_broker.net.capacity import MORE_DESCRIPTORS

logger = logging.getLogger("dbg_broker")

DESCRIPTORS = 4
"""Descriptors in reserve: newcomers that are told at once that there are no more; each takes milliseconds."""

ENOUGH = 2
"""Descriptors beside the spare ones: one for a newcomer, and one that accept takes before it looks for the next."""

NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of a call that found no file descriptor left, of this process or of the host."""

TELL_SECONDS = 60.0
"""Seconds after which the log tells again of a lack that comes and goes."""


class Lack:
    """What the broker lacks, if it does; the log tells when that begins and ends, once a minute at most."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.why = ""
        """What the broker lacks and how to give it more, as a sentence without a full stop; empty if it has enough."""
        self._clock = clock
        self._tell_at = clock()
        self._is_told = False

    def begin(self, why: str) -> None:
        """Note what is lacking now; nothing is new if something was lacking already."""
        if self.why:
            return
        self.why = why
        if self._clock() >= self._tell_at:
            self._is_told = True
            self._tell_at = self._clock() + TELL_SECONDS
            logger.warning("newcomers are refused: %s", why)

    def end(self) -> None:
        """Note that there is enough again."""
        self.why = ""
        if self._is_told:
            self._is_told = False
            logger.warning("newcomers are taken again")


class SpareDescriptors:
    """Open descriptors in reserve, which are lent to connections that could not be accepted otherwise.

    As long as one is lent, a newcomer is to be told ``lack.why`` instead of being taken.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.lack = Lack(clock)
        self._kept: list[int] = []
        self._wanted = 0

    def begin(self) -> None:
        """Open the reserve; before, there is nothing to lend and nothing lacks."""
        self._wanted = DESCRIPTORS
        self._fill(DESCRIPTORS)

    def lend(self, error: OSError) -> bool:
        """Close a spare descriptor for the call that failed with this error; return whether there was one."""
        self.lack.begin(_why_no_descriptor(error))
        if not self._kept:
            return False
        os.close(self._kept.pop())
        return True

    def refill(self) -> None:
        """Take back what was lent, as far as there are descriptors; with ENOUGH more for newcomers the lack is over."""
        if self.lack.why:
            if self._fill(self._wanted + ENOUGH):
                self.lack.end()
            while len(self._kept) > self._wanted:
                os.close(self._kept.pop())

    def close(self) -> None:
        """Close the reserve."""
        self._wanted = 0
        while self._kept:
            os.close(self._kept.pop())

    def _fill(self, count: int) -> bool:
        """Open descriptors until there are this many in all; return whether there were."""
        with contextlib.suppress(OSError):
            while len(self._kept) < count:
                self._kept.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        return len(self._kept) >= count


def _why_no_descriptor(error: OSError) -> str:
    if error.errno == errno.ENFILE:
        return "the broker's host has no file descriptor left; ask who runs it for a larger fs.file-max"
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"the broker has no file descriptor left, as it may have {soft} open files; {MORE_DESCRIPTORS}"
