"""Ended ranks that stay listed: how long, and how many. Pure: time is an argument."""

from __future__ import annotations

from typing import NamedTuple

from dbg_wire import limits


class _Ended(NamedTuple):
    since: float
    job: str


class EndedRanks:
    """The keys of ended ranks in the order of their ends, each with its job.

    The oldest are forgotten if they are too old. If they are too many, the oldest of the job that has most is
    forgotten: no job pushes the ranks of another off the list.
    """

    def __init__(self) -> None:
        self._ended: dict[str, _Ended] = {}
        self._jobs: dict[str, dict[str, None]] = {}
        """The keys of each job, the oldest first."""

    def __len__(self) -> int:
        return len(self._ended)

    def put(self, key: str, job: str, now: float) -> None:
        """Enter a rank as the last that ended, anew if it was there."""
        self.drop(key)
        self._ended[key] = _Ended(now, job)
        self._jobs.setdefault(job, {})[key] = None

    def drop(self, key: str) -> None:
        """Take a rank out; an unknown one is no error."""
        ended = self._ended.pop(key, None)
        if ended is not None:
            of_job = self._jobs[ended.job]
            del of_job[key]
            if not of_job:
                del self._jobs[ended.job]

    def overdue(self, now: float) -> list[str]:
        """Take out those that are to be forgotten, and return their keys."""
        gone: list[str] = []
        while (key := self._next_overdue(now)) is not None:
            self.drop(key)
            gone.append(key)
        return gone

    def _next_overdue(self, now: float) -> str | None:
        if self._ended and now - self._ended[oldest := next(iter(self._ended))].since >= limits.ENDED_RANK_SECONDS:
            return oldest
        if len(self._ended) > limits.MAX_ENDED_RANKS:
            return next(iter(self._jobs[max(self._jobs, key=lambda job: len(self._jobs[job]))]))
        return None
