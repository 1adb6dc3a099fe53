"""Let a stop go on by itself if nobody sits down at it in time; on the rank's own clock, with or without a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dbg_wire.messages import Audience

from ..stderr import say
from ..stop.inbox import GoOn, Inbox
from ..stop.stops import Stops


class LeasedRank(Protocol):
    """Say what a lease needs of the rank whose stop it ends."""

    stops: Stops
    inbox: Inbox

    @property
    def address(self) -> str:
        """Return what terminals call this rank."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something in the link's thread after some seconds."""


class Lease:
    """Know whether the current stop is to end by itself; a driver ends that for good."""

    def __init__(self, rank: LeasedRank) -> None:
        self._rank = rank
        self._stop: int | None = None
        self._is_driven = False

    def begin(self, seconds: float | None) -> None:
        """Give the current stop so many seconds, or no end; in the stopped thread."""
        if seconds is None or self._is_driven:
            self._stop = None
            return
        number = self._rank.stops.number
        self._stop = number
        self._rank.call_later(seconds, lambda: self._ends(number, seconds))

    def note(self, audience: Audience) -> None:
        """Note whether somebody sits at the keyboard, as those who watch do not; in the link's thread."""
        self._is_driven = audience.driven
        if audience.driven:
            self._stop = None

    def left(self) -> None:
        """Note that nobody is heard of any more; whoever comes back is told of anew. In the link's thread."""
        self._is_driven = False

    def _ends(self, number: int, seconds: float) -> None:
        rank = self._rank
        stop, _ = rank.stops.current
        if self._stop != number or stop != number:
            return
        rank.inbox.put(number, GoOn(lambda: None))
        # Afterwards, since a job's stderr that nobody reads keeps whoever writes to it.
        say(f"{rank.address} goes on: nobody attached within its lease of {seconds:g} s")
