"""Waits of the program's threads in which no signal of the program is left lying."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SIGNAL_SECONDS = 1.0
"""Seconds for which a signal may be left lying. CPython calls a signal's handler when the main thread comes to its next
instruction. A signal that comes between the last instruction and the begin of a wait does not end the wait, and neither
does one that the kernel gives to another thread of the program. To wake up once in a second costs 20 µs."""


def wait_for(condition: threading.Condition, is_so: Callable[[], bool], seconds: float | None = None) -> bool:
    """Wait on a condition that the caller holds until something is so; return whether it is, after ``seconds`` at most.

    What a signal handler of the program raises comes out within SIGNAL_SECONDS.
    """
    end = None if seconds is None else time.monotonic() + seconds
    while not is_so():
        left = SIGNAL_SECONDS if end is None else min(SIGNAL_SECONDS, end - time.monotonic())
        if left <= 0:
            return False
        condition.wait(left)
    return True
