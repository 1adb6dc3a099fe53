"""Quotas: the token bucket of a rate, and the LRU map. Pure: time is an argument."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ROUNDING = 1e-9


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

    def try_spend(self, cost: float, now: float) -> bool:
        """Take tokens out if they are there, and tell whether they were."""
        # What comes back is a sum of fractions, and may fall short by a rounding.
        if self.tokens(now) < cost - ROUNDING:
            return False
        self._tokens -= cost
        return True

    def tokens(self, now: float) -> float:
        """Return how many tokens are there; a negative number is what is owed."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        return self._tokens

    def seconds_until(self, cost: float, now: float) -> float:
        """Return the seconds until so many tokens are there."""
        return max(0.0, (cost - self.tokens(now)) / self._rate)

    def is_full(self, now: float) -> bool:
        """Tell whether it is as a new one."""
        return self.tokens(now) >= self._burst


class LruMap(Generic[K, V]):
    """LRU map: of more than ``most`` entries, or of more than ``most_size``, the one used least lately is forgotten.

    ``size_of`` returns what an entry counts for the latter, and ``size`` is the sum of that.
    """

    def __init__(self, most: int, *, size_of: Callable[[V], int] | None = None, most_size: int = 0) -> None:
        self._most, self._size_of, self._most_size = most, size_of, most_size
        self._entries: OrderedDict[K, V] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """Go through the keys, the one used least lately first."""
        return iter(self._entries)

    def get(self, key: K) -> V | None:
        """Return an entry without using it, None if there is none."""
        return self._entries.get(key)

    def use(self, key: K, make: Callable[[], V]) -> V:
        """Return the entry of a key as the one used last; ``make`` returns the one to enter if there is none."""
        known = self._entries.get(key)
        return self.setdefault(key, make() if known is None else known)

    def setdefault(self, key: K, value: V) -> V:
        """Return the entry of a key as the one used last; enter this one if there is none."""
        known = self._entries.get(key)
        if known is None:
            self.put(key, value)
            return value
        self._entries.move_to_end(key)
        return known

    def put(self, key: K, value: V) -> None:
        """Enter something as used last, in place of what the key had."""
        self.drop(key)
        self._entries[key] = value
        if self._size_of is not None:
            self.size += self._size_of(value)
        while len(self._entries) > self._most or self.size > self._most_size:
            self.drop(next(iter(self._entries)))

    def drop(self, key: K) -> None:
        """Forget a key; an unknown one is no error."""
        value = self._entries.pop(key, None)
        if value is not None and self._size_of is not None:
            self.size -= self._size_of(value)
