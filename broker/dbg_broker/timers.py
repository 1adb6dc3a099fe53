"""The clocks of an event loop, the calls that it makes later, and the token bucket of a rate."""

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


class TokenBucket:
    """Token bucket: ``burst`` tokens at most, of which ``rate`` come back in a second. It begins full."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, now: float, rate: float, burst: float | None = None) -> None:
        """Begin full; ``burst`` is one second's rate unless it is given."""
        self._rate = rate
        self._burst = self._tokens = float(rate if burst is None else burst)
        self._at = now

    def spend(self, cost: float, now: float) -> float:
        """Take tokens out even if they are not there yet; return the seconds until they are."""
        self._tokens = self.tokens(now) - cost
        return max(0.0, -self._tokens / self._rate)

    def tokens(self, now: float) -> float:
        """Return how many tokens are there; a negative number is what is owed."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        return self._tokens

    def seconds_until(self, cost: float, now: float) -> float:
        """Return the seconds until so many tokens are there."""
        return max(0.0, (cost - self.tokens(now)) / self._rate)
