"""How many texts of log points a rank tells the broker; the job's output has all of them. Pure."""

from __future__ import annotations

MAX_OF_RANK = 10
"""Texts of one rank in a second: nobody reads more lines than that while they come."""

MAX_OF_JOB = 2000
"""Texts of all ranks of a job in a second, if the job has fewer ranks than that: the broker passes on as many."""


class LogPace:
    """The texts of one rank: so many in a second are told, and the others are counted.

    For any thread, without a lock, which a signal's code or a forked child could find taken: of two threads that come
    in the same moment one text may be missing in the count.
    """

    def __init__(self, world_size: int) -> None:
        self._rate = max(1, min(MAX_OF_RANK, MAX_OF_JOB // world_size))
        self._second = 0
        self._told = 0
        self._left_out = 0
        self._last = ""
        self._is_due = False

    def line(self, text: str, now: float) -> str | None:
        """Return the line to tell for a text, with the number of those that were left out before; None to leave it out.

        ``now`` is in seconds.
        """
        if int(now) != self._second:
            self._second, self._told = int(now), 0
        if self._told >= self._rate:
            self._left_out, self._last = self._left_out + 1, text
            return None
        self._told += 1
        return self._after(self._left_out, text)

    def is_last_due(self) -> bool:
        """Tell whether :meth:`last` is to be called a second from now, since a text was left out; once until then."""
        was_due, self._is_due = self._is_due, True
        return not was_due

    def last(self) -> str | None:
        """Return the line to tell for the last text if that was left out; None if another one was told since."""
        self._is_due = False
        left_out, text = self._left_out, self._last
        return self._after(left_out - 1, text) if left_out else None

    def _after(self, left_out: int, text: str) -> str:
        self._left_out, self._last = 0, ""
        # In front, since the end of a long text is cut off on the way.
        return f"({left_out} more before this one: see the job's output) {text}" if left_out else text
