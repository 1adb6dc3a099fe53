"""Time limits of a stop: its lease, which ends the stop, and the first deadline, which is only reported.

A lease is the time after which an unused stop ends by itself. A stop can have its own lease, and the broker sets a
longest lease for all stops. Both run on the rank's own clock, with or without a broker. The stop's own lease applies
until the first driver attaches. The longest lease restarts whenever a driver attaches, leaves or types, or a step ends.
So a terminal that merely stays attached over a weekend does not keep a stop.

A held rank has no lease while a broker is connected, because users don't type at it. It continues when the broker
reports that the awaited ranks have continued. If the connection is lost, the held rank waits for one longest lease
more.

A deadline is one of four events. Collectives of other ranks that wait for this rank time out. The job ends. The
launcher kills the rank after a SIGTERM. The longest lease ends the stop. The timeout of collectives runs from the start
of the stop, and the longest lease from the most recent use of the stop. The earliest deadline is printed at the stop,
and updated in the list of ranks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from dbg_agent.process.imports import loaded
from dbg_agent.process.log import write_stderr
from dbg_agent.stop.inbox import ResumeThread
from dbg_agent.stop.stops import HELD
from dbg_wire.limits import notice_seconds
from dbg_wire.messages import Notice, Viewers
from dbg_wire.records.ranks import SOON_SECONDS, Limit, LimitKind
from dbg_wire.records.record import clamp

if TYPE_CHECKING:
    from dbg_agent.link.outgoing import ToBroker
    from dbg_agent.stop.inbox import Inbox
    from dbg_agent.stop.stops import Stops

TORCH = "torch.distributed.distributed_c10d"
"""The module in which torch keeps its groups."""

HOUR, MINUTE = 3600.0, 60.0
"""Units in which a time limit is shown, in seconds. The remaining time is reported again each minute."""

SOON_AGAIN_SECONDS = 10.0
"""Seconds between two reports of the remaining time, once it is less than SOON_SECONDS."""


@dataclass(frozen=True, slots=True)
class _Own:
    """The stop's own lease: the stop's number, the lease's duration in seconds, and its end on the monotonic clock."""

    stop: int
    seconds: float
    end: float


class Lease:
    """The leases of the current stop: its own, if it has one, and the broker's longest lease.

    The stopped thread starts them and the link's thread does the rest. Each attribute is assigned atomically.
    """

    def __init__(
        self, broker: ToBroker, stops: Stops, inbox: Inbox, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._broker = broker
        self._stops = stops
        self._inbox = inbox
        self._clock = clock
        self._own: _Own | None = None
        self._most: float | None = None
        """The longest lease that the broker allows, in seconds. It is kept until a broker sends another value."""
        self._used = 0.0
        """The time of the stop's most recent use, or of its start if nobody has used it."""
        self._is_driven = False
        self._generation = 0
        self._gone: float | None = None
        """The time when the connection to the broker was lost; None while there is a broker."""
        self._armed = 0
        """Number of checks scheduled so far. When one is due, it does nothing if a later one was scheduled."""

    def start(self, seconds: float | None = None) -> None:
        """Start the leases of the current stop. Called in the stopped thread.

        The stop's own lease is ``seconds``; it has none if this is None or if a terminal already drives the rank.
        """
        now, number = self._clock(), self._stops.number
        self._own = None if seconds is None or self._is_driven else _Own(number, seconds, now + seconds)
        self.use()
        self._arm()

    def allow(self, most: float | None) -> None:
        """Set the longest lease that the broker allows. If it has changed, it starts again for the current stop."""
        is_news, self._most, self._gone = most != self._most, most, None
        if is_news:
            self.use()
            self._arm()

    def use(self) -> None:
        """Restart the stop's longest lease, because the stop is used. Any thread calls it, for every key."""
        self._used = self._clock()
        self._stops.note_lease(self._present())

    def note_viewers(self, viewers: Viewers) -> None:
        """Record whether a terminal drives the rank, not only watches it. Called in the link's thread."""
        before = self._is_driven, self._generation
        self._is_driven, self._generation = viewers.driven, viewers.generation
        if viewers.driven:
            self._own = None
        if before != (self._is_driven, self._generation):
            # A driver attached or left.
            self.use()
            self._arm()

    def left(self) -> None:
        """Record that the connection to the broker is lost, and with it all terminals. Called in the link's thread.

        The next broker reports which terminals are attached.
        """
        self._is_driven = False
        self._gone = self._clock() if self._gone is None else self._gone
        if self._stops.is_hold:
            self._arm()

    def end_stop(self, why: str) -> None:
        """End the current stop, if there is one, and print the reason to stderr."""
        number, _ = self._stops.current
        if number is not None:
            self._go_on(number, why)

    @property
    def max_lease_deadline(self) -> float | None:
        """The time when the stop ends by the broker's longest lease, or None if it does not."""
        begun = self._gone if self._stops.is_hold else self._used
        return None if self._most is None or begun is None else begun + self._most

    def _present(self) -> tuple[float, float] | None:
        """Return duration and end of the lease that ends the current stop first, or None if there is no lease."""
        own, longest, most = self._own, self.max_lease_deadline, self._most
        own = own if own is not None and own.stop == self._stops.number else None
        if longest is None or most is None:
            return (own.seconds, own.end) if own is not None else None
        return (own.seconds, own.end) if own is not None and own.end <= longest else (most, longest)

    def _arm(self) -> None:
        """Schedule a check for the time when users must be told that the lease ends soon, or when it ends."""
        present = self._present()
        if present is None:
            if self._most is not None and self._stops.is_hold:
                # A hold has no lease while the broker is connected. The check is still needed, because the hold becomes
                # an ordinary stop, with a lease, once a user opens a debugger on the held rank.
                self._put_off(self._most)
            return
        seconds, end = present
        left, notice = end - self._clock(), notice_seconds(seconds)
        self._put_off(max(0.0, left - notice if left > notice else left))

    def _put_off(self, seconds: float) -> None:
        self._armed = armed = self._armed + 1
        self._broker.call_later(seconds, lambda: self._check(armed))

    def _check(self, armed: int) -> None:
        number, _ = self._stops.current
        if armed != self._armed or number is None:
            return
        present = self._present()
        if present is None:
            self.use()
            self._arm()
            return
        seconds, end = present
        own_is_over = self._own is not None and self._own.stop == number and self._own.end <= self._clock()
        is_used = not self._stops.is_halted or self._stops.is_busy
        if own_is_over or (end <= self._clock() and not is_used):
            self._end(number, seconds, is_own=own_is_over)
            return
        if is_used:
            # A step or command of a user is still running.
            self.use()
        self._stops.note_lease(self._present())
        if end - self._clock() <= notice_seconds(seconds):
            # When the broker gets a report of a lease that ends soon, it warns the users.
            self._broker.publish()
        self._arm()

    def _end(self, number: int, seconds: float, *, is_own: bool) -> None:
        if is_own:
            why = f"nobody attached within its lease of {seconds:g} s"
        elif self._stops.is_hold:
            why = f"the broker has been gone for {_span(seconds)}, its limit for a stop (--max-lease)"
        else:
            why = f"nobody typed at this stop for {_span(seconds)}, the broker's limit (--max-lease)"
        self._broker.send(clamp(Notice, text=f"the stop ends: {why}"))
        self._go_on(number, why)

    def _go_on(self, number: int, why: str) -> None:
        # The resumed thread prints the reason. The link's thread must not wait for the program's stderr, and might
        # print too late: the process may end right after the stop.
        self._inbox.put(number, ResumeThread(lambda: write_stderr(f"{self._broker.address} continues: {why}")))


def _span(seconds: float) -> str:
    """Return a duration in the unit that a user has probably used for it."""
    for unit, letter in ((HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g} {letter}"
    return f"{seconds:g} s"


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time limit that ends at ``at`` on the monotonic clock."""

    kind: LimitKind
    at: float
    name: str = ""

    def limit(self, now: float) -> Limit:
        """Return the limit as a record with the time left."""
        return clamp(Limit, kind=self.kind, seconds=max(0.0, self.at - now), name=self.name)


def _torch() -> ModuleType | None:
    """Return the module with the timeouts of torch's groups, or None if torch is not loaded."""
    if loaded(TORCH) is None:
        return None
    from dbg_agent.torch import group_timeouts  # not loaded in a rank without torch

    return group_timeouts


def first_deadline(environ: Mapping[str, str], now: float, wall: float) -> Deadline | None:
    """Return the first deadline of a rank that stops now, or None if no deadline is known. Never raise."""
    found = []
    group = None
    # The code reads internals of torch, which a release of torch may have changed.
    with suppress(Exception):
        torch = _torch()
        group = torch.shortest() if torch is not None else None
    if group is not None:
        found.append(Deadline(LimitKind.COLLECTIVES, now + group[1], group[0]))
    try:
        # The variable is a Unix timestamp. If it was inherited from an older job, it is in the past.
        left = int(environ.get("SLURM_JOB_END_TIME", "")) - wall
    except ValueError:
        left = 0.0
    if left > 0:
        found.append(Deadline(LimitKind.JOB, now + left))
    return min(found, key=lambda deadline: deadline.at, default=None)


class StopLimits:
    """The leases and the earliest deadline of the current stop.

    During a stop the timeouts of torch's process groups are raised. After it, their own timeouts are restored.
    """

    def __init__(self, broker: ToBroker, stops: Stops, inbox: Inbox) -> None:
        self.lease = Lease(broker, stops, inbox)
        self._broker = broker
        self._stops = stops
        self._first: Deadline | None = None
        self._stop = 0
        """The number of the stop that the limits belong to."""
        self._armed = 0
        """Number of updates scheduled so far. When one is due, it does nothing if a later one was scheduled."""
        self._begun = 0

    def start(self, reason: str, lease: float | None) -> Limit | None:
        """Start the limits of a new stop; return the limit that ends first. Called in the stopped thread."""
        self.lease.start(lease)
        self._begun += 1
        try:
            if (torch := _torch()) is not None:
                torch.timeouts.raise_again()
        except Exception as error:
            self._broker.warn(f"the timeouts of process groups can't be raised ({type(error).__name__})")
        # A held rank has no deadline, because all ranks that could wait for it are held or stopped themselves.
        self._first = first_deadline(os.environ, time.monotonic(), time.time()) if reason != HELD else None
        self._stop = self._stops.number
        self._report(self._stop)
        first = self._deadline()
        return first.limit(time.monotonic()) if first is not None else None

    def terminated(self, launcher: str, seconds: float) -> Limit:
        """Set the deadline after a SIGTERM of the launcher, which kills the rank about ``seconds`` later.

        Any thread may call it.
        """
        now = time.monotonic()
        self._first = first = Deadline(LimitKind.LAUNCHER, now + seconds, launcher)
        self._update()
        return first.limit(now)

    def allow(self, most: float | None) -> None:
        """Set the longest lease that the broker allows. Called in the link's thread."""
        self.lease.allow(most)
        self._update()

    def note_viewers(self, viewers: Viewers) -> None:
        """Record whether a terminal drives the rank. Called in the link's thread."""
        self.lease.note_viewers(viewers)
        self._update()

    def _update(self) -> None:
        """Report the first deadline again, because the broker or a terminal may have changed it."""
        number, _ = self._stops.current
        if number is not None and number == self._stop:
            self._report(number)

    def end(self) -> None:
        """Schedule the restoration of the groups' own timeouts. Called in the stopped thread before the stop ends.

        The raised timeouts are still needed after this stop: a user may resume the ranks one by one, and the next
        iteration may stop at the same line again. No rank knows which stop is the final one. So the groups' own
        timeouts are restored only if no other stop begins within the raised timeout.
        """
        torch = _torch()
        if torch is not None and torch.timeouts.seconds is not None:
            begun = self._begun
            self._broker.call_later(torch.timeouts.seconds, lambda: self._restore(begun))

    def _deadline(self) -> Deadline | None:
        """Return the earliest deadline as of now; None without a deadline."""
        first, end = self._first, self.lease.max_lease_deadline
        if end is None or (first is not None and first.at <= end):
            return first
        return Deadline(LimitKind.LEASE, end)

    def _report(self, number: int) -> None:
        """Put the first deadline into the rank's report, and schedule the next update."""
        deadline, now = self._deadline(), time.monotonic()
        if self._stops.current[0] != number:
            return
        self._stops.set_limit(deadline.limit(now) if deadline is not None else None)
        if deadline is not None and now < deadline.at:
            pause = MINUTE if deadline.at - now > SOON_SECONDS else SOON_AGAIN_SECONDS
            self._armed = armed = self._armed + 1
            self._broker.call_later(min(pause, deadline.at - now), lambda: self._again(armed, number))

    def _again(self, armed: int, number: int) -> None:
        if armed == self._armed:
            self._report(number)

    def _restore(self, begun: int) -> None:
        """Restore the groups' own timeouts, unless this rank has stopped again."""
        if self._begun == begun and self._stops.current[0] is None:
            with suppress(Exception):
                if (torch := _torch()) is not None:
                    torch.timeouts.restore()
