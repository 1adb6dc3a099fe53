"""The first deadline while a rank is stopped: printed at the stop, and kept up to date in the list of ranks.

A deadline is the timeout of other ranks' collectives that wait for this rank, the end of the job, or the end of the
stop by the longest lease that the broker allows. The time of the first two runs, at the latest, since this rank
stopped; that of the last one runs since the stop was used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from dbg_agent.stop.stops import HELD, Stops
from dbg_agent.waiting.group_timeouts import shortest, timeouts

SOON_SECONDS = 120.0
"""Seconds before a deadline from which on the time left is given in seconds, not in minutes."""

MINUTE = 60.0
"""Seconds after which the time left is updated."""

SOON_AGAIN_SECONDS = 10.0
"""Seconds after which the time left is updated within SOON_SECONDS of the deadline."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """What happens, ``past`` once it has happened, and when on the monotonic clock."""

    what: str
    past: str
    at: float

    def text(self, now: float) -> str:
        """Return the time left, as a sentence."""
        left = self.at - now
        if left <= 0:
            return self.past
        return f"{self.what} in {f'{left / MINUTE:.0f} min' if left >= SOON_SECONDS else f'{left:.0f} s'}"


def first_deadline(environ: Mapping[str, str], now: float, wall: float) -> Deadline | None:
    """Return the first deadline of a rank that stops now; None if none is known. Never raises."""
    found = []
    try:
        group = shortest()
    except Exception:
        # This release of torch may have other internals.
        group = None
    if group is not None:
        waits = f"{group[0]} collectives that wait for it"
        found.append(Deadline(f"{waits} time out", f"{waits} have timed out", now + group[1]))
    try:
        # The variable holds seconds since 1970. One that is inherited from an older job is in the past.
        left = int(environ.get("SLURM_JOB_END_TIME", "")) - wall
    except ValueError:
        left = 0.0
    if left > 0:
        found.append(Deadline("SLURM ends the job", "the job's time is over", now + left))
    return min(found, key=lambda deadline: deadline.at, default=None)


class DeadlineRank(Protocol):
    """What deadlines need of the stopped rank."""

    stops: Stops

    def warn(self, text: str) -> None:
        """Write one line to stderr, once; never raise."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Have the link's thread call ``call`` after some seconds."""


class Deadlines:
    """The first deadline while this rank is stopped, and the return of the process groups' own timeouts afterwards."""

    def __init__(self, rank: DeadlineRank, lease_ends: Callable[[], float | None] = lambda: None) -> None:
        """``lease_ends`` returns when the stop ends by the broker's longest lease, on the monotonic clock."""
        self._rank = rank
        self._lease_ends = lease_ends
        self._first: Deadline | None = None
        self._stop = 0
        """The number of the stop that all of this is about."""
        self._armed = 0
        """Counts the updates that were put off; only the latest one is carried out."""
        self._stops = 0
        self._base = ""
        self._said = ""

    def begin(self, reason: str, detail: str) -> str:
        """Take in that a stop has begun; return the first deadline as a sentence, or ""; in the stopped thread."""
        self._stops += 1
        try:
            timeouts.raise_again()
        except Exception as error:
            self._rank.warn(f"the timeouts of process groups can't be raised ({type(error).__name__})")
        # The ranks that could wait for a held rank are held themselves, or stopped.
        self._first = first_deadline(os.environ, time.monotonic(), time.time()) if reason != HELD else None
        self._base, self._said = detail, detail
        self._stop = self._rank.stops.number
        first = self._deadline()
        if first is None:
            return ""
        self._tell(self._stop)
        return first.text(time.monotonic())

    def look(self) -> None:
        """Tell the first deadline again, which the broker or a terminal may have moved; in the link's thread."""
        number, _ = self._rank.stops.current
        if number is not None and number == self._stop:
            self._tell(number)

    def end(self) -> None:
        """Take in that the stop is about to end; in the stopped thread.

        No rank knows which stop is the last one. Groups get their own timeouts back if no other stop begins within the
        longer timeout. Until then the ranks stopped at the same place may be let go one after the other, and the next
        iteration may stop at the same line again.
        """
        seconds = timeouts.seconds
        if seconds is not None:
            stops = self._stops
            self._rank.call_later(seconds, lambda: self._restore(stops))

    def _deadline(self) -> Deadline | None:
        """Return the first deadline as of now."""
        first, end = self._first, self._lease_ends()
        if end is None or (first is not None and first.at <= end):
            return first
        return Deadline("unless somebody types, it goes on", "nobody has typed, so it goes on", end)

    def _tell(self, number: int) -> None:
        """Have the report name the first deadline, unless another detail took its place, and look again in time."""
        deadline = self._deadline()
        if self._rank.stops.current[0] != number or (deadline is None and self._said == self._base):
            return
        now = time.monotonic()
        text = deadline.text(now) if deadline is not None else ""
        said = "; ".join(filter(None, (self._base, text)))
        left = max(0.0, deadline.at - now) if deadline is not None else None
        if self._rank.stops.note(said, instead_of=self._said, limit=text, limit_seconds=left):
            self._said = said
            if deadline is not None and now < deadline.at:
                pause = MINUTE if deadline.at - now > SOON_SECONDS else SOON_AGAIN_SECONDS
                self._armed = armed = self._armed + 1
                self._rank.call_later(min(pause, deadline.at - now), lambda: self._again(armed, number))

    def _again(self, armed: int, number: int) -> None:
        if armed == self._armed:
            self._tell(number)

    def _restore(self, stops: int) -> None:
        """Give groups their timeouts back, unless this rank has stopped again."""
        if self._stops == stops and self._rank.stops.current[0] is None:
            with suppress(Exception):
                timeouts.restore()
