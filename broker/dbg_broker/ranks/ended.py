"""Which exited and lost ranks stay listed: for an hour, bounded in number and in bytes. Pure; time is an argument."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from dbg_wire import limits


class _Kept(NamedTuple):
    since: float
    size: int


class EndedRanks:
    """Ended ranks and, apart from them, ended sessions of stock debuggers, which push no rank off the list."""

    def __init__(self) -> None:
        self._ranks = Ended()
        self._stock = Ended(limits.MAX_ENDED_STOCK)

    def put(self, key: str, size: int, now: float, *, is_stock: bool) -> None:
        """Enter a rank or session as the last that ended."""
        (self._stock if is_stock else self._ranks).put(key, size, now)

    def resize(self, key: str, size: int) -> None:
        """Note that a rank which may have ended occupies more or less than before."""
        self._ranks.resize(key, size)

    def drop(self, key: str) -> None:
        """Take a rank or session out; an unknown one is no error."""
        self._ranks.drop(key)
        self._stock.drop(key)

    def overdue(self, now: float) -> list[str]:
        """Take out those that are to be forgotten, and return their keys."""
        return [*self._ranks.overdue(now), *self._stock.overdue(now)]


class Ended:
    """The keys of ended ranks in the order of their ends, each with the bytes that it occupies.

    The oldest are forgotten if they are too old or too many. The heaviest are forgotten if all take too many bytes, so
    that a few ranks with endless stacks and paths push no others off the list. ``most`` is the largest number of ranks,
    None for limits.MAX_ENDED_RANKS.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, key: str, size: int, now: float) -> None:
        """Enter a rank as the last that ended, anew if it was there."""
        self.drop(key)
        self._kept[key] = _Kept(now, size)
        self.size += size

    def resize(self, key: str, size: int) -> None:
        """Note that a rank which may have ended occupies more or less than before."""
        kept = self._kept.get(key)
        if kept is not None:
            self._kept[key] = _Kept(kept.since, size)
            self.size += size - kept.size

    def drop(self, key: str) -> None:
        """Take a rank out; an unknown one is no error."""
        kept = self._kept.pop(key, None)
        self.size -= kept.size if kept is not None else 0

    def overdue(self, now: float) -> Iterator[str]:
        """Yield the keys of ranks to forget; each is taken out before it is yielded."""
        most = limits.MAX_ENDED_RANKS if self._most is None else self._most
        while self._kept:
            oldest, kept = next(iter(self._kept.items()))
            if len(self._kept) <= most and now - kept.since < limits.ENDED_RANK_SECONDS:
                break
            self.drop(oldest)
            yield oldest
        while self.size > limits.MAX_ENDED_BYTES:
            heaviest = max(self._kept, key=lambda key: self._kept[key].size)
            self.drop(heaviest)
            yield heaviest
