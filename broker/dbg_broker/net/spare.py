"""What the broker keeps in reserve, so that it can still say what it lacks when the system gives it no more.

All methods belong to the event loop's thread.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import mmap
import os
import resource
from collections.abc import Callable

from dbg_broker.net.places import MORE_DESCRIPTORS
from dbg_wire import limits

logger = logging.getLogger("dbg_broker")

DESCRIPTORS = 4
"""Descriptors in reserve: newcomers that are told at once that there are no more; each takes milliseconds."""

ENOUGH = 2
"""Descriptors beside the spare ones: one for a newcomer, and one that accept takes before it looks for the next."""

NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of a call that found no file descriptor left, of this process or of the host."""

MEMORY = 16 * limits.MIB
"""Bytes of address space in reserve; they are never touched, so that they take no memory of the host. A message of each
of a dozen ranks and what is made of it fits, or the TLS of two hundred newcomers."""

HEADROOM = 4 * limits.MIB
"""Bytes that there must be beside the reserve: more than what the broker takes between two looks."""

LOOK_SECONDS = 0.001
"""Seconds between two looks at least; a look takes three microseconds."""

RETRY_SECONDS = 1.0
"""Seconds between two attempts to have the reserve back."""

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


class SpareMemory:
    """Address space in reserve, which is given up for those who are connected when there is no more beside it.

    Until it is back, newcomers are to be told ``lack.why`` instead of being taken, and so are long answers' readers.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.lack = Lack(clock)
        self._clock = clock
        self._kept: mmap.mmap | None = None
        self._is_begun = False
        self._look_at = clock()

    def begin(self) -> None:
        """Take the reserve; before, nothing lacks."""
        self._is_begun = True
        self._take()

    def poll(self) -> None:
        """See whether there is memory beside the reserve, which is given up if not, or whether it can be had again.

        It is called as often as the loop turns.
        """
        now = self._clock()
        if not self._is_begun or now < self._look_at:
            return
        if self._kept is None:
            self._take()
        elif (room := _room(HEADROOM)) is None:
            self.give_up()
        else:
            self._look_at = now + LOOK_SECONDS
            room.close()

    def give_up(self) -> None:
        """Free the reserve: there is no memory beside it."""
        self._look_at = self._clock() + RETRY_SECONDS
        if self._kept is not None:
            self._kept.close()
            self._kept = None
        if self._is_begun:
            self.lack.begin(_why_no_memory())

    def close(self) -> None:
        """Free the reserve at the broker's end."""
        self._is_begun = False
        self.give_up()

    def _take(self) -> None:
        kept, room = _room(MEMORY), _room(HEADROOM)
        if room is not None:
            room.close()
        if kept is not None and room is None:
            kept.close()
        elif kept is not None:
            self._kept = kept
            self.lack.end()
            return
        self.give_up()


def _room(size: int) -> mmap.mmap | None:
    """Return address space of this size, None if the system gives none."""
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, MemoryError):
        return None


def _why_no_memory() -> str:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return "the broker is short of memory, as its host has no more for it; have others there end"
    return (
        f"the broker is short of memory, as it may have {soft // limits.MIB} MiB; "
        "start it after `ulimit -v` with a larger number"
    )


def _why_no_descriptor(error: OSError) -> str:
    if error.errno == errno.ENFILE:
        return "the broker's host has no file descriptor left; ask who runs it for a larger fs.file-max"
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"the broker has no file descriptor left, as it may have {soft} open files; {MORE_DESCRIPTORS}"
