"""Changes for many readers: each is told what has changed since it was told last, when it can take that. Pure.

A change is noted once, however many readers there are. A reader that is behind gets the last state of each key in place
of all states, since the state is looked up when it is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from dbg_broker.timers import Timers

logger = logging.getLogger("dbg_broker")

K = TypeVar("K", bound=Hashable)

NOTHING = -1
"""The place of a reader that has been told nothing."""

MAX_REST_SECONDS = 1.0
"""Longest rest: thousands that wait are told within a second."""


class Feed(Generic[K]):
    """Feed: the keys that have changed, in the order of their last changes.

    A reader keeps the place up to which it has read, of which ``end`` is the last.
    """

    def __init__(self) -> None:
        self._places: dict[K, int] = {}
        self.end = 0

    def changed(self, key: K) -> None:
        """Note that a key has changed."""
        self.end += 1
        self._places.pop(key, None)
        self._places[key] = self.end

    def has_changed(self, key: K, place: int) -> bool:
        """Return whether a key has changed since a place."""
        return self._places.get(key, 0) > place

    def since(self, place: int) -> list[K]:
        """Return the keys that have changed since a place, in the order of their last changes."""
        found: list[K] = []
        for key, at in reversed(self._places.items()):
            if at <= place:
                break
            found.append(key)
        return found[::-1]

    def forget(self, key: K) -> None:
        """Forget a key; an unknown one is no error."""
        self._places.pop(key, None)


class Passes:
    """Passes over the readers of feeds: one at a time, in slices between which others have their turns.

    ``readers`` returns a call for each reader that is to be told something. ``begin`` does work in slices. After a pass
    come ``rest`` seconds, and as many for each reader that was told as ``rest_each`` says. An error with one reader
    leaves the others.
    """

    def __init__(
        self,
        readers: Callable[[], Iterator[Callable[[], object]]],
        begin: Callable[[Iterator[None]], None],
        timers: Timers,
        *,
        rest: float = 0.0,
        rest_each: float = 0.0,
    ) -> None:
        self._readers, self._begin = readers, begin
        self._clock, self._schedule = timers.clock, timers.schedule
        self._rest, self._rest_each = rest, rest_each
        self._rests_until = 0.0
        self._is_due = self._is_begun = False

    def changed(self) -> None:
        """Have a pass begin as soon as the one before has ended, and its rest."""
        if not self._is_due:
            self._is_due = True
            if not self._is_begun:
                self._schedule(max(0.0, self._rests_until - self._clock()), self._start)

    def _start(self) -> None:
        # A change during a pass waits for the next one: otherwise a reader could hear the new state before the old.
        self._is_due, self._is_begun = False, True
        self._begin(self._pass())

    def _pass(self) -> Iterator[None]:
        told = 0
        try:
            for tell in self._readers():
                try:
                    tell()
                except Exception:
                    logger.exception("an error of the broker with one of those who are told of a change")
                told += 1
                yield
        finally:
            self._is_begun = False
            rest = self._rest + told * self._rest_each if told else 0.0
            self._rests_until = self._clock() + min(MAX_REST_SECONDS, rest)
            if self._is_due:
                self._is_due = False
                self.changed()
