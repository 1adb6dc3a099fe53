"""The clocks of an event loop, and the calls that it makes later."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Timers:
    """Clocks and timers, as one value; a test gives its own in place of them."""

    clock: Callable[[], float]
    """Monotonic seconds."""
    schedule: Callable[[float, Callable[[], None]], object]
    """Call something after so many seconds."""
    wall: Callable[[], float] = time.time
    """Seconds since the epoch: set now and then, and going on while the host sleeps."""
    spent: Callable[[], float] = time.thread_time
    """Seconds of processor time of the loop's thread: what other processes of the host take doesn't count."""
