"""The end of a stop that nobody uses: by its own lease, or by the longest one that the broker allows.

Both run on the rank's own clock, with or without a broker. The own lease of a stop counts until the first driver comes.
The broker's counts at every stop, since a driver last came or typed, or a step ended: a terminal that is left attached
over a week-end keeps nothing. A held rank goes on after the ranks that it is held for, of which the broker tells;
without a broker it waits for as long as these can, since nobody types there meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dbg_agent.stderr import say
from dbg_agent.stop.inbox import GoOn, Inbox
from dbg_agent.stop.stops import Stops
from dbg_wire.limits import notice_seconds
from dbg_wire.messages import Audience, Message, Notice
from dbg_wire.records.record import fitted

HOUR, MINUTE = 3600.0, 60.0


class LeasedRank(Protocol):
    """What a lease needs of the rank whose stop it ends."""

    stops: Stops
    inbox: Inbox

    @property
    def address(self) -> str:
        """Return the name by which terminals address this rank."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Have the link's thread call ``call`` after some seconds."""

    def publish(self) -> None:
        """Have a report sent."""

    def send(self, message: Message) -> None:
        """Have a message sent."""


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

    def __init__(self, rank: LeasedRank, clock: Callable[[], float] = time.monotonic) -> None:
        self._rank = rank
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
        now, number = self._clock(), self._rank.stops.number
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
        self._rank.stops.note_lease(self._present())

    def note(self, audience: Audience) -> None:
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
        if self._rank.stops.is_hold:
            self._arm()

    def end_stop(self, why: str) -> None:
        """End the current stop, if there is one, and say why on stderr."""
        number, _ = self._rank.stops.current
        if number is not None:
            self._go_on(number, why)

    @property
    def longest_ends(self) -> float | None:
        """Return when the stop ends by the broker's longest lease; None if it does not."""
        begun = self._gone if self._rank.stops.is_hold else self._used
        return None if self._most is None or begun is None else begun + self._most

    def _present(self) -> tuple[float, float] | None:
        """Return the seconds and the end of the lease by which the current stop ends first; None if it lasts."""
        own, longest, most = self._own, self.longest_ends, self._most
        own = own if own is not None and own.stop == self._rank.stops.number else None
        if longest is None or most is None:
            return (own.seconds, own.end) if own is not None else None
        return (own.seconds, own.end) if own is not None and own.end <= longest else (most, longest)

    def _arm(self) -> None:
        """Look again when the lease is to be told, or to end."""
        present = self._present()
        if present is None:
            if self._most is not None and self._rank.stops.is_hold:
                # A user may open it meanwhile, which makes it a stop like others.
                self._put_off(self._most)
            return
        seconds, end = present
        left, notice = end - self._clock(), notice_seconds(seconds)
        self._put_off(max(0.0, left - notice if left > notice else left))

    def _put_off(self, seconds: float) -> None:
        self._armed = armed = self._armed + 1
        self._rank.call_later(seconds, lambda: self._look(armed))

    def _look(self, armed: int) -> None:
        rank = self._rank
        number, _ = rank.stops.current
        if armed != self._armed or number is None:
            return
        present = self._present()
        if present is None:
            self.use()
            self._arm()
            return
        seconds, end = present
        own_is_over = self._own is not None and self._own.stop == number and self._own.end <= self._clock()
        is_used = not rank.stops.is_halted or rank.stops.is_busy
        if own_is_over or (end <= self._clock() and not is_used):
            self._end(number, seconds, is_own=own_is_over)
            return
        if is_used:
            # A step or a command that a user has started takes long.
            self.use()
        rank.stops.note_lease(self._present())
        if end - self._clock() <= notice_seconds(seconds):
            # The broker tells of a lease that is about to end when it is reported.
            rank.publish()
        self._arm()

    def _end(self, number: int, seconds: float, *, is_own: bool) -> None:
        rank = self._rank
        if is_own:
            why = f"nobody attached within its lease of {seconds:g} s"
        elif rank.stops.is_hold:
            why = f"the broker has been gone for {_span(seconds)}, as long as it lets a stop last (--max-lease)"
        else:
            why = f"nobody typed at this stop for {_span(seconds)}, as long as the broker lets it last (--max-lease)"
        rank.send(fitted(Notice, text=f"the stop ends: {why}"))
        self._go_on(number, why)

    def _go_on(self, number: int, why: str) -> None:
        rank = self._rank
        # The thread that goes on says so: the process may end right after, and a stream of the program's own may block.
        rank.inbox.put(number, GoOn(lambda: say(f"{rank.address} goes on: {why}")))


def _span(seconds: float) -> str:
    """Return a span of time in the unit in which a user is likely to have written it."""
    for unit, letter in ((HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g} {letter}"
    return f"{seconds:g} s"
