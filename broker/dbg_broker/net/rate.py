"""How fast one peer may send. Pure: time is an argument."""

from __future__ import annotations


class RateLimit:
    """Budget of what a peer may send: ``rate`` bytes a second.

    Nothing is refused. A peer above its rate is not read from for a while, so that input stays whole and in order.
    """

    def __init__(self, now: float, rate: int) -> None:
        self._rate = rate
        self._credit = float(rate)
        self._at = now

    def spend(self, size: int, now: float) -> float:
        """Take ``size`` bytes off the credit of one second, and return the seconds to wait before reading on."""
        self._credit = min(self._rate, self._credit + (now - self._at) * self._rate) - size
        self._at = now
        return max(0.0, -self._credit / self._rate)
