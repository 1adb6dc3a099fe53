"""Changes for many readers: each reader gets the changes since its last update as soon as it can receive them. Pure.

A change is recorded once, regardless of the number of readers. A reader that is behind gets only the latest state of
each key, because the state is looked up when it is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from dbg_broker.timers import Timers

logger = logging.getLogger("dbg_broker")

K = TypeVar("K", bound=Hashable)

NOTHING = -1
"""Position of a reader that has not read anything."""

MAX_REST_SECONDS = 1.0
"""Maximum pause between two passes over readers, in seconds. The pause grows with the number of updated readers, and
thousands of readers would make it too long."""


class Feed(Generic[K]):
    """Keys that have changed, in the order of their last changes.

    A reader stores the position up to which it has read; ``end`` is the last position.
    """

    def __init__(self) -> None:
        self._places: dict[K, int] = {}
        self.end = 0

    def changed(self, key: K) -> None:
        """Record that a key has changed."""
        self.end += 1
        self._places.pop(key, None)
        self._places[key] = self.end

    def has_changed(self, key: K, place: int) -> bool:
        """Return True if a key has changed since a position."""
        return self._places.get(key, 0) > place

    def since(self, place: int) -> list[K]:
        """Return the keys that have changed since a position, in the order of their last changes."""
        found: list[K] = []
        for key, at in reversed(self._places.items()):
            if at <= place:
                break
            found.append(key)
        return found[::-1]

    def forget(self, key: K) -> None:
        """Forget a key. Ignore an unknown one."""
        self._places.pop(key, None)


class Passes:
    """Passes over the readers of feeds: one at a time, in slices between which other tasks run.

    ``readers`` yields a function for each reader that needs an update; the function sends the update. ``start_turn``
    runs work in slices. A pass is followed by a pause of ``rest`` seconds, plus ``rest_each`` for each updated reader.
    An error with one reader does not affect the others.
    """

    def __init__(
        self,
        readers: Callable[[], Iterator[Callable[[], object]]],
        start_turn: Callable[[Iterator[None]], None],
        timers: Timers,
        *,
        rest: float = 0.0,
        rest_each: float = 0.0,
    ) -> None:
        self._readers, self._start_turn = readers, start_turn
        self._clock, self._schedule = timers.clock, timers.schedule
        self._rest, self._rest_each = rest, rest_each
        self._rests_until = 0.0
        self._is_due = self._is_begun = False

    def changed(self) -> None:
        """Schedule a pass. It starts after the current pass and the pause that follows."""
        if not self._is_due:
            self._is_due = True
            if not self._is_begun:
                self._schedule(max(0.0, self._rests_until - self._clock()), self._start)

    def _start(self) -> None:
        # A change during a pass waits for the next one. Otherwise a reader could get the new state before the old one.
        self._is_due, self._is_begun = False, True
        self._start_turn(self._pass())

    def _pass(self) -> Iterator[None]:
        sent = 0
        try:
            for notify in self._readers():
                try:
                    notify()
                except Exception:
                    logger.exception("internal error while notifying a peer of a change")
                sent += 1
                yield
        finally:
            self._is_begun = False
            rest = self._rest + sent * self._rest_each if sent else 0.0
            self._rests_until = self._clock() + min(MAX_REST_SECONDS, rest)
            if self._is_due:
                self._is_due = False
                self.changed()
