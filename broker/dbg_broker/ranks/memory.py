"""Memory that is kept of ranks: what a message weighs, and which ranks are forgotten or closed first. Pure."""

from __future__ import annotations

from sys import getsizeof
from typing import NamedTuple

from dbg_broker.quotas import ByteBudget
from dbg_wire import limits
from dbg_wire.records.ranks import Place
from dbg_wire.records.record import Record, Row, size_of

_PLACE = 56 + 28
"""Bytes of a place beside its two texts: its own, and those of its number."""

_OF_ROW = 5
"""Bytes in memory for one in the message, of a row that holds nothing but short texts. Most rows need half of that, but
to look at each of their fields would take long: a message may hold some ten thousand."""

MEMORY_OF_TEXT = 4
"""Bytes of memory for each character of a message that is kept: short texts take more memory than they are long."""

MAX_RANK_BYTES = 4 * 1024 * 1024
"""Bytes for one connected rank: as many breakpoints as a rank may report, with the longest paths and conditions, take
half of it, and a usual rank a hundredth."""

MAX_LIVE_BYTES = 512 * 1024 * 1024
"""Bytes for all connected ranks: 20,000 of them with a report, breakpoints and a stack of 6 KiB together fit."""


def weight(*values: object) -> int:
    """Return about how many bytes messages and parts of them occupy; what two of them share counts twice."""
    total = 0
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if type(value) is Place:
            # A message may hold four thousand of them.
            total += _PLACE + getsizeof(value.file) + getsizeof(value.function)
            continue
        if isinstance(value, Row):
            total += _OF_ROW * size_of(value)
            continue
        total += getsizeof(value)
        if isinstance(value, tuple):
            waiting.extend(value)
        elif isinstance(value, Record):
            waiting.extend([getattr(value, name) for name in value.__struct_fields__])
    return total


class LiveBytes(ByteBudget[str]):
    """Byte budget of each connected rank, by what it said."""

    def __init__(self) -> None:
        super().__init__(MAX_LIVE_BYTES)
        self._said: dict[str, dict[str, int]] = {}

    def note(self, key: str, kind: str, length: int) -> bool:
        """Note that a rank's last message of a kind has ``length`` characters; the one before is not kept.

        Return whether it takes more than that one.
        """
        said = self._said.setdefault(key, {})
        more = length * MEMORY_OF_TEXT - said.get(kind, 0)
        if more:
            self.add(key, more)
            said[kind] = length * MEMORY_OF_TEXT
        return more > 0

    def drop(self, holder: str) -> None:
        """Forget a rank that is not connected any more; an unknown one is no error."""
        self._said.pop(holder, None)
        super().drop(holder)

    def is_too_much(self, key: str) -> bool:
        """Tell whether a rank alone takes more than one may."""
        return self.of(key) > MAX_RANK_BYTES


class _Kept(NamedTuple):
    since: float
    size: int
    job: str


class EndedRanks:
    """The keys of ended ranks in the order of their ends, each with its job and the bytes that it occupies.

    The oldest are forgotten if they are too old. If they are too many, the oldest of the job that has most is
    forgotten, and if all take too many bytes, the heaviest of the job that takes most: no job pushes the ranks of
    another off the list, and a few ranks with endless stacks and paths no others.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._jobs: dict[str, dict[str, None]] = {}
        """The keys of each job, the oldest first."""
        self.sizes: ByteBudget[str] = ByteBudget(limits.MAX_ENDED_BYTES)

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, key: str, job: str, size: int, now: float) -> None:
        """Enter a rank as the last that ended, anew if it was there."""
        self.drop(key)
        self._kept[key] = _Kept(now, 0, job)
        self._jobs.setdefault(job, {})[key] = None
        self.resize(key, size)

    def resize(self, key: str, size: int) -> None:
        """Note that a rank which may have ended occupies more or less than before."""
        kept = self._kept.get(key)
        if kept is not None:
            self._kept[key] = kept._replace(size=size)
            self.sizes.add(kept.job, size - kept.size)

    def drop(self, key: str) -> None:
        """Take a rank out; an unknown one is no error."""
        self.resize(key, 0)
        kept = self._kept.pop(key, None)
        if kept is not None:
            of_job = self._jobs[kept.job]
            del of_job[key]
            if not of_job:
                del self._jobs[kept.job]
                self.sizes.drop(kept.job)

    def overdue(self, now: float) -> list[str]:
        """Take out those that are to be forgotten, and return their keys."""
        gone: list[str] = []
        while (key := self._next_overdue(now)) is not None:
            self.drop(key)
            gone.append(key)
        return gone

    def _next_overdue(self, now: float) -> str | None:
        if self._kept and now - self._kept[oldest := next(iter(self._kept))].since >= limits.ENDED_RANK_SECONDS:
            return oldest
        if len(self._kept) > limits.MAX_ENDED_RANKS:
            return next(iter(self._jobs[max(self._jobs, key=lambda job: len(self._jobs[job]))]))
        job = self.sizes.heaviest()
        return None if job is None else max(self._jobs[job], key=lambda key: self._kept[key].size)
