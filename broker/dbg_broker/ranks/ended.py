"""Which exited and lost ranks stay listed: for an hour, bounded in number and in bytes, fair to all jobs. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from dbg_wire import limits


class _Kept(NamedTuple):
    since: float
    size: int
    job: str


class _OfJob:
    """The keys of one job, the oldest first, and the bytes that all of them occupy."""

    __slots__ = ("keys", "size")

    def __init__(self) -> None:
        self.keys: OrderedDict[str, None] = OrderedDict()
        self.size = 0


class EndedRanks:
    """Ended ranks and, apart from them, ended sessions of stock debuggers, which push no rank off the list."""

    def __init__(self) -> None:
        self._ranks = Ended()
        self._stock = Ended(limits.MAX_ENDED_STOCK)

    def put(self, key: str, job: str, size: int, now: float, *, is_stock: bool) -> None:
        """Enter a rank or session as the last that ended."""
        (self._stock if is_stock else self._ranks).put(key, job, size, now)

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
    """The keys of ended ranks in the order of their ends, each with its job and the bytes that it occupies.

    The oldest are forgotten if they are too old. If they are too many, the oldest of the job that has most is
    forgotten, and if all take too many bytes, the heaviest of the job that takes most: no job pushes the ranks of
    another off the list, and a few ranks with endless stacks and paths no others. ``most`` is the largest number of
    ranks, None for limits.MAX_ENDED_RANKS.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._jobs: dict[str, _OfJob] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, key: str, job: str, size: int, now: float) -> None:
        """Enter a rank as the last that ended, anew if it was there."""
        self.drop(key)
        self._kept[key] = _Kept(now, 0, job)
        self._jobs.setdefault(job, _OfJob()).keys[key] = None
        self.resize(key, size)

    def resize(self, key: str, size: int) -> None:
        """Note that a rank which may have ended occupies more or less than before."""
        kept = self._kept.get(key)
        if kept is not None:
            self._kept[key] = kept._replace(size=size)
            self._jobs[kept.job].size += size - kept.size
            self.size += size - kept.size

    def drop(self, key: str) -> None:
        """Take a rank out; an unknown one is no error."""
        self.resize(key, 0)
        kept = self._kept.pop(key, None)
        if kept is not None:
            of_job = self._jobs[kept.job]
            del of_job.keys[key]
            if not of_job.keys:
                del self._jobs[kept.job]

    def overdue(self, now: float) -> Iterator[str]:
        """Yield the keys of ranks to forget; each is taken out before it is yielded."""
        while (key := self._next_overdue(now)) is not None:
            self.drop(key)
            yield key

    def _next_overdue(self, now: float) -> str | None:
        most = limits.MAX_ENDED_RANKS if self._most is None else self._most
        if self._kept and now - self._kept[oldest := next(iter(self._kept))].since >= limits.ENDED_RANK_SECONDS:
            return oldest
        if len(self._kept) > most:
            return next(iter(max(self._jobs.values(), key=lambda job: len(job.keys)).keys))
        if self.size > limits.MAX_ENDED_BYTES:
            return max(max(self._jobs.values(), key=lambda job: job.size).keys, key=lambda key: self._kept[key].size)
        return None
