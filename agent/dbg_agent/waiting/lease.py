"""The end of a stop to which no terminal attaches in time; on the rank's own clock, with or without a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dbg_wire.messages import Audience

from ..stderr import say
from ..stop.inbox import GoOn, Inbox
from ..stop.stops import Stops


class LeasedRank(Protocol):
    """What a lease needs of the rank whose stop it ends."""

    stops: Stops
    inbox: Inbox

    @property
    def address(self) -> str:
        """Return the name by which terminals address this rank."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Have the link's thread call ``call`` after some seconds."""


class Lease:
    """The time limit of the current stop. A driver ends the limit for the rest of the stop."""

    def __init__(self, rank: LeasedRank) -> None:
        self._rank = rank
        self._stop: int | None = None
        self._is_driven = False

    def begin(self, seconds: float | None) -> None:
        """Let the current stop end after ``seconds``; never if None or if a terminal drives. In the stopped thread."""
        if seconds is None or self._is_driven:
            self._stop = None
            return
        number = self._rank.stops.number
        self._stop = number
        self._rank.call_later(seconds, lambda: self._ends(number, seconds))

    def note(self, audience: Audience) -> None:
        """Note whether a terminal drives the rank, not only watches it; in the link's thread."""
        self._is_driven = audience.driven
        if audience.driven:
            self._stop = None

    def left(self) -> None:
        """Note that the broker is gone: the next one reports the terminals anew. In the link's thread."""
        self._is_driven = False

    def _ends(self, number: int, seconds: float) -> None:
        rank = self._rank
        stop, _ = rank.stops.current
        if self._stop != number or stop != number:
            return
        rank.inbox.put(number, GoOn(lambda: None))
        # The message comes last, since a write to a job's stderr that no process reads blocks.
        say(f"{rank.address} goes on: nobody attached within its lease of {seconds:g} s")
