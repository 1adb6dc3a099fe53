"""The clients that ask for the texts of log points, and how many texts of each job they are sent. Pure."""

from __future__ import annotations

from typing import NamedTuple

MAX_A_SECOND = 2000
"""Texts that all clients together are sent in a second: three of each of 512 ranks, in some 4 % of the loop's time."""

MAX_TEXT = 2000
"""Characters of a text that clients are sent."""

MAX_JOBS = 64
"""Paces that are kept apart; the texts of all further jobs share one."""

_OTHERS = ""
"""All jobs beyond MAX_JOBS; a job's name is never empty."""


class LeftOut(NamedTuple):
    """The last text that was not sent, of the rank with this key, and how many were left out before that one."""

    key: str
    text: str
    before: int


class LogPace:
    """The texts of one job: so many in a second are sent, and the others are counted."""

    def __init__(self, now: float) -> None:
        self._credit = 1.0
        """Seconds of the rate that are not used, one at most."""
        self._at = now
        self._last: tuple[str, str] | None = None
        self._count = 0
        self._is_due = False

    def may_send(self, now: float, rate: float) -> bool:
        """Tell whether a text may be sent now, at ``rate`` texts a second, and count it as sent if so."""
        self._rest(now)
        # Rounded, since the credit is a sum of fractions.
        if round(self._credit * rate, 6) < 1:
            return False
        self._credit -= 1 / rate
        return True

    def leave_out(self, key: str, text: str) -> bool:
        """Count a text that is not sent, and tell whether :meth:`last` is to be called for it after a while."""
        self._last, self._count = (key, text), self._count + 1
        was_due, self._is_due = self._is_due, True
        return not was_due

    def left_out(self) -> int:
        """Return how many texts were left out since this was called last."""
        count, self._count, self._last = self._count, 0, None
        return count

    def last(self) -> LeftOut | None:
        """Return the last text that was left out, which is to be sent now; None if another one was sent since."""
        self._is_due = False
        if self._last is None:
            return None
        key, text = self._last
        return LeftOut(key, text, self.left_out() - 1)

    def is_rested(self, now: float) -> bool:
        """Tell whether it is as a new one."""
        self._rest(now)
        return self._credit == 1 and not self._count

    def _rest(self, now: float) -> None:
        self._credit = min(1.0, self._credit + now - self._at)
        self._at = now


class LogListeners:
    """The clients by the numbers of their links, and a pace for each job: the flood of one hides no text of another."""

    def __init__(self) -> None:
        self.behind: dict[int, int] = {}
        """How many texts were not sent to each client since it was behind."""
        self._paces: dict[str, LogPace] = {}
        self._forgets_at = 0.0

    def set(self, number: int, *, wants: bool) -> None:
        """Note whether a client wants texts from now on."""
        if wants:
            self.behind.setdefault(number, 0)
        else:
            self.behind.pop(number, None)

    def may_send(self, pace: LogPace, now: float) -> bool:
        """Tell whether a text of a job is to be sent to all clients now, and count it as sent if so."""
        return pace.may_send(now, MAX_A_SECOND / (max(1, len(self.behind)) * max(1, len(self._paces))))

    def pace(self, job: str, now: float) -> LogPace:
        """Return the pace of a job."""
        if job not in self._paces or now >= self._forgets_at:
            self._forget_rested(now)
        if job not in self._paces and len(self._paces) >= MAX_JOBS:
            job = _OTHERS
        return self._paces.setdefault(job, LogPace(now))

    def _forget_rested(self, now: float) -> None:
        """Give the part of jobs that log nothing any more to the others."""
        self._forgets_at = now + 1
        for job in [job for job, pace in self._paces.items() if pace.is_rested(now)]:
            del self._paces[job]
