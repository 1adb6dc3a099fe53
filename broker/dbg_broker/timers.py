"""Clocks and timers of an event loop, and the token bucket for rate limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Timers:
    """Clocks and timers, as one value; tests replace them."""

    clock: Callable[[], float]
    """Monotonic seconds."""
    schedule: Callable[[float, Callable[[], None]], object]
    """Calls a function after some seconds."""
    wall: Callable[[], float] = time.time
    """Seconds since the epoch; the clock may be set, and continues while the host sleeps."""
    spent: Callable[[], float] = time.thread_time
    """Processor time of the loop's thread, in seconds, without the time of other processes."""


class TokenBucket:
    """Token bucket: at most ``burst`` tokens, refilled with ``rate`` tokens per second. It starts full."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, now: float, rate: float, burst: float | None = None) -> None:
        """Create a full bucket; ``burst`` defaults to one second's rate."""
        self._rate = rate
        self._burst = self._tokens = float(rate if burst is None else burst)
        self._at = now

    def spend(self, cost: float, now: float) -> float:
        """Spend tokens, even if they are not available yet. Return the seconds until they are."""
        self._tokens = self.tokens(now) - cost
        return max(0.0, -self._tokens / self._rate)

    def tokens(self, now: float) -> float:
        """Return the number of available tokens; a negative number is a debt."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        return self._tokens

    def seconds_until(self, cost: float, now: float) -> float:
        """Return the seconds until ``cost`` tokens are available."""
        return max(0.0, (cost - self.tokens(now)) / self._rate)
