"""The time limits of a stop: its lease, which ends it, and the first deadline, which is told.

A stop that nobody uses ends by its own lease, or by the longest one that the broker allows. Both run on the rank's own
clock, with or without a broker. The own lease of a stop counts until the first driver comes. The broker's counts at
every stop, since a driver last came or typed, or a step ended: a terminal that is left attached over a week-end keeps
nothing. A held rank goes on after the ranks that it is held for, of which the broker tells; without a broker it waits
for as long as these can, since nobody types there meanwhile.

A deadline is the timeout of other ranks' collectives that wait for this rank, the end of the job, or the end of the
stop by the longest lease. The time of the first two runs, at the latest, since this rank stopped; that of the last one
runs since the stop was used. It is printed at the stop, and kept up to date in the list of ranks.
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
from dbg_agent.process.log import say
from dbg_agent.stop.inbox import GoOn
from dbg_agent.stop.stops import HELD
from dbg_wire.limits import notice_seconds
from dbg_wire.messages import Audience, Notice
from dbg_wire.records.ranks import SOON_SECONDS, Limit, LimitKind
from dbg_wire.records.record import fitted

if TYPE_CHECKING:
    from dbg_agent.link.outgoing import ToBroker
    from dbg_agent.stop.inbox import Inbox
    from dbg_agent.stop.stops import Stops

TORCH = "torch.distributed.distributed_c10d"
"""The module in which torch keeps its groups."""

HOUR, MINUTE = 3600.0, 60.0
"""Units of a time limit; the time left is updated each minute."""

SOON_AGAIN_SECONDS = 10.0
"""Seconds after which the time left is updated within SOON_SECONDS of the deadline."""


@dataclass(frozen=True, slots=True)
class _Own:
    """The lease of one stop: its number, seconds, and end on the monotonic clock."""

    stop: int
    seconds: float
    end: float


class Lease:
    """The time limit of the current stop.

    The stopped thread begins it and the link's thread does the rest; each attribute is replaced as a whole.
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
        """The longest lease that the broker allows, in seconds; it stays until another broker says otherwise."""
        self._used = 0.0
        """When the stop began or was used last."""
        self._is_driven = False
        self._generation = 0
        self._gone: float | None = None
        """Since when there is no broker; None while there is one."""
        self._armed = 0
        """Counts the looks that were put off; only the latest one is carried out."""

    def begin(self, seconds: float | None = None) -> None:
        """Let the current stop end after ``seconds``, unless that is None or a terminal drives; in the stopped thread.

        It also ends by the broker's longest lease.
        """
        now, number = self._clock(), self._stops.number
        self._own = None if seconds is None or self._is_driven else _Own(number, seconds, now + seconds)
        self.use()
        self._arm()

    def allow(self, most: float | None) -> None:
        """Note the longest lease that the broker allows; a stop that there is may use all of it."""
        is_news, self._most, self._gone = most != self._most, most, None
        if is_news:
            self.use()
            self._arm()

    def use(self) -> None:
        """Note that the stop is used: its longest lease begins anew. From any thread, for every key."""
        self._used = self._clock()
        self._stops.note_lease(self._present())

    def note_audience(self, audience: Audience) -> None:
        """Note whether a terminal drives the rank, not only watches it; in the link's thread."""
        before = self._is_driven, self._generation
        self._is_driven, self._generation = audience.driven, audience.generation
        if audience.driven:
            self._own = None
        if before != (self._is_driven, self._generation):
            # A driver came or left.
            self.use()
            self._arm()

    def left(self) -> None:
        """Note that the broker is gone: the next one reports the terminals anew. In the link's thread."""
        self._is_driven = False
        self._gone = self._clock() if self._gone is None else self._gone
        if self._stops.is_hold:
            self._arm()

    def end_stop(self, why: str) -> None:
        """End the current stop, if there is one, and say why on stderr."""
        number, _ = self._stops.current
        if number is not None:
            self._go_on(number, why)

    @property
    def max_lease_deadline(self) -> float | None:
        """Return when the stop ends by the broker's longest lease; None if it does not."""
        begun = self._gone if self._stops.is_hold else self._used
        return None if self._most is None or begun is None else begun + self._most

    def _present(self) -> tuple[float, float] | None:
        """Return the seconds and the end of the lease by which the current stop ends first; None if it lasts."""
        own, longest, most = self._own, self.max_lease_deadline, self._most
        own = own if own is not None and own.stop == self._stops.number else None
        if longest is None or most is None:
            return (own.seconds, own.end) if own is not None else None
        return (own.seconds, own.end) if own is not None and own.end <= longest else (most, longest)

    def _arm(self) -> None:
        """Look again when the lease is to be told, or to end."""
        present = self._present()
        if present is None:
            if self._most is not None and self._stops.is_hold:
                # A user may open it meanwhile, which makes it a stop like others.
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
            # A step or a command that a user has started takes long.
            self.use()
        self._stops.note_lease(self._present())
        if end - self._clock() <= notice_seconds(seconds):
            # The broker tells of a lease that is about to end when it is reported.
            self._broker.publish()
        self._arm()

    def _end(self, number: int, seconds: float, *, is_own: bool) -> None:
        if is_own:
            why = f"nobody attached within its lease of {seconds:g} s"
        elif self._stops.is_hold:
            why = f"the broker has been gone for {_span(seconds)}, as long as it lets a stop last (--max-lease)"
        else:
            why = f"nobody typed at this stop for {_span(seconds)}, as long as the broker lets it last (--max-lease)"
        self._broker.send(fitted(Notice, text=f"the stop ends: {why}"))
        self._go_on(number, why)

    def _go_on(self, number: int, why: str) -> None:
        # The thread that goes on says so: the process may end right after, and a stream of the program's own may block.
        self._inbox.put(number, GoOn(lambda: say(f"{self._broker.address} goes on: {why}")))


def _span(seconds: float) -> str:
    """Return a span of time in the unit in which a user is likely to have written it."""
    for unit, letter in ((HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g} {letter}"
    return f"{seconds:g} s"


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time limit by its end on the monotonic clock."""

    kind: LimitKind
    at: float
    name: str = ""

    def limit(self, now: float) -> Limit:
        """Return the limit with the time left."""
        return fitted(Limit, kind=self.kind, seconds=max(0.0, self.at - now), name=self.name)


def _torch() -> ModuleType | None:
    """Return what knows the timeouts of torch's groups; None while torch is not loaded."""
    if loaded(TORCH) is None:
        return None
    from dbg_agent.torch import group_timeouts  # a rank without torch does without

    return group_timeouts


def first_deadline(environ: Mapping[str, str], now: float, wall: float) -> Deadline | None:
    """Return the first deadline of a rank that stops now; None if none is known. Never raises."""
    found = []
    group = None
    # This release of torch may have other internals.
    with suppress(Exception):
        torch = _torch()
        group = torch.shortest() if torch is not None else None
    if group is not None:
        found.append(Deadline(LimitKind.COLLECTIVES, now + group[1], group[0]))
    try:
        # The variable holds seconds since 1970. One that is inherited from an older job is in the past.
        left = int(environ.get("SLURM_JOB_END_TIME", "")) - wall
    except ValueError:
        left = 0.0
    if left > 0:
        found.append(Deadline(LimitKind.JOB, now + left))
    return min(found, key=lambda deadline: deadline.at, default=None)


class StopLimits:
    """The lease and the first deadline of the current stop, and the return of groups' own timeouts after it."""

    def __init__(self, broker: ToBroker, stops: Stops, inbox: Inbox) -> None:
        self.lease = Lease(broker, stops, inbox)
        self._broker = broker
        self._stops = stops
        self._first: Deadline | None = None
        self._stop = 0
        """The number of the stop that all of this is about."""
        self._armed = 0
        """Counts the updates that were put off; only the latest one is carried out."""
        self._begun = 0

    def begin(self, reason: str, lease: float | None) -> Limit | None:
        """Take in that a stop has begun; return the limit that ends first; in the stopped thread."""
        self.lease.begin(lease)
        self._begun += 1
        try:
            if (torch := _torch()) is not None:
                torch.timeouts.raise_again()
        except Exception as error:
            self._broker.warn(f"the timeouts of process groups can't be raised ({type(error).__name__})")
        # The ranks that could wait for a held rank are held themselves, or stopped.
        self._first = first_deadline(os.environ, time.monotonic(), time.time()) if reason != HELD else None
        self._stop = self._stops.number
        self._report(self._stop)
        first = self._deadline()
        return first.limit(time.monotonic()) if first is not None else None

    def terminated(self, launcher: str, seconds: float) -> Limit:
        """Note that the launcher has sent SIGTERM, and kills the rank after about so many seconds; from any thread."""
        now = time.monotonic()
        self._first = first = Deadline(LimitKind.LAUNCHER, now + seconds, launcher)
        self._update()
        return first.limit(now)

    def allow(self, most: float | None) -> None:
        """Note the longest lease that the broker allows; in the link's thread."""
        self.lease.allow(most)
        self._update()

    def note_audience(self, audience: Audience) -> None:
        """Note whether a terminal drives the rank; in the link's thread."""
        self.lease.note_audience(audience)
        self._update()

    def _update(self) -> None:
        """Tell the first deadline again, which the broker or a terminal may have moved."""
        number, _ = self._stops.current
        if number is not None and number == self._stop:
            self._report(number)

    def end(self) -> None:
        """Take in that the stop is about to end; in the stopped thread.

        No rank knows which stop is the last one. Groups get their own timeouts back if no other stop begins within the
        longer timeout. Until then the ranks stopped at the same place may be let go one after the other, and the next
        iteration may stop at the same line again.
        """
        torch = _torch()
        if torch is not None and torch.timeouts.seconds is not None:
            begun = self._begun
            self._broker.call_later(torch.timeouts.seconds, lambda: self._restore(begun))

    def _deadline(self) -> Deadline | None:
        """Return the first deadline as of now."""
        first, end = self._first, self.lease.max_lease_deadline
        if end is None or (first is not None and first.at <= end):
            return first
        return Deadline(LimitKind.LEASE, end)

    def _report(self, number: int) -> None:
        """Have the report tell the first deadline, and look again in time."""
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
        """Give groups their timeouts back, unless this rank has stopped again."""
        if self._begun == begun and self._stops.current[0] is None:
            with suppress(Exception):
                if (torch := _torch()) is not None:
                    torch.timeouts.restore()
