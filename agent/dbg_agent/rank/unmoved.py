"""For how long a running main thread is known to have been in the same instruction, between two looks at it.

A rank that runs is neither traced nor sampled for this. It is looked at when the broker probes it, every 20 s or more
often, and when somebody asks for its stack.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dbg_agent.stop.stacks import all_frames

LOOKED_AT = 64
"""Innermost frames that a look compares; those further out have hardly returned if none of these has."""

FREE_SECONDS = 50e-6
"""Processor time between two looks that a thread may have used without having moved: the end of a call into the kernel
that had begun before the first look."""

FREE_SHARE = 5e-6
"""Further processor time, as a part of the time between the looks: a wait may wake up now and then."""

Seen = tuple[tuple[int, int], ...]


class Unmoved:
    """Where the main thread was at the last look, since when, and how much processor time it had used by then.

    The same instruction in the same frames is not enough: a loop comes back to it, and a new frame may lie where an old
    one was, as Python reuses the memory. No frame is kept to tell the two apart, since it would keep its variables
    alive, tensors among them. But a thread that went round a loop has used processor time, and one that waits has used
    none. A thread that computes in C code, or spins there, counts as moving.
    """

    def __init__(self, processor_time: Callable[[], float] | None = None) -> None:
        self._processor_time = processor_time or _main_thread_time
        self._seen: Seen | None = None
        self._since = self._used = 0.0

    def look(self) -> float | None:
        """Look at the main thread; return for how many seconds it has not moved, None if that is unknown."""
        now, used, seen = time.monotonic(), self._processor_time(), _main_thread_frames()
        elapsed = now - self._since
        if seen is None or seen != self._seen or used - self._used > FREE_SECONDS + FREE_SHARE * elapsed:
            self._seen, self._since, self._used = seen, now, used
            return None
        return elapsed


def _main_thread_frames() -> Seen | None:
    frame = all_frames().get(threading.main_thread().ident or 0)
    seen: list[tuple[int, int]] = []
    while frame is not None and len(seen) < LOOKED_AT:
        seen.append((id(frame), frame.f_lasti))
        frame = frame.f_back
    return tuple(seen) or None


def _main_thread_time() -> float:
    # The clock of another thread must not be asked for: that thread may end meanwhile, and the C library would crash.
    return time.clock_gettime(time.pthread_getcpuclockid(threading.main_thread().ident or 0))
