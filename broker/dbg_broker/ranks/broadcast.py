"""Messages to many ranks about what changed for them, sent without delaying other peers. Pure.

Changes are gathered: however many ranks report in one turn of the event loop, each rank that is concerned is told once.
A broadcast to thousands goes out in slices, with turns of the loop for other peers between them, and is followed by a
rest, so that a job whose ranks all change at once takes a bounded part of the broker's time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from dbg_broker.timers import Timers
from dbg_wire.messages import Chosen, Kept

MAX_REST_SECONDS = 1.0
"""Longest rest: thousands that wait are let go within a second."""

SENT_AT_ONCE = 256
"""Ranks that are sent something in one turn of the event loop: 3 ms, with TLS 10 ms."""

SLICE_SECONDS = 0.001
"""Longest time in one turn of the event loop for making and sending broadcasts; the last one may end two ms late."""

REST_SECONDS = 0.05
"""Least seconds between two broadcasts: a rank that waits for a person doesn't notice them."""

REST_SECONDS_EACH = 0.0002
"""Seconds of rest for each rank, twenty times the cost of sending to it: broadcasts take a twentieth of the time."""


class Broadcast(NamedTuple):
    """A message and the keys of the ranks that are to get it.

    A message with a ``name`` says everything, and replaces an earlier one of this name that waits to be sent. A message
    without a name says what changed, and is of use only to a rank that has been told everything before.
    """

    message: Chosen | Kept
    keys: tuple[str, ...]
    name: Hashable


News = Callable[[], Iterator[Broadcast]]
"""Return what is to be told to which ranks now; it counts as told then."""

Send = Callable[[bytes, str, Hashable], None]
"""Send a frame to the rank of this key; the last argument is the broadcast's name."""


class Broadcasts:
    """Sender of what ``sources`` have to tell, in slices."""

    def __init__(
        self,
        sources: Iterable[News],
        pack: Callable[[Chosen | Kept], bytes],
        send: Send,
        timers: Timers,
    ) -> None:
        self._sources = tuple(sources)
        self._pack = pack
        self._send = send
        self._clock, self._schedule = timers.clock, timers.schedule
        self._waiting: deque[tuple[bytes, str, Hashable]] = deque()
        self._pending: Iterator[Broadcast] = iter(())
        self._sent = 0
        self._is_due = False
        self._rests_until = 0.0

    def changed(self) -> None:
        """Note that a source has something to tell."""
        if not self._is_due:
            self._is_due = True
            self._schedule(max(0.0, self._rests_until - self._clock()), self._begin)

    def _begin(self) -> None:
        # Changes during a broadcast wait for the next one; otherwise a rank could hear the new state before the old.
        self._is_due = True
        self._sent = 0
        self._pending = chain.from_iterable(source() for source in self._sources)
        self._go_on()

    def _go_on(self) -> None:
        goes_on = True
        try:
            goes_on = self._send_slice()
        finally:
            # After an error too: the other ranks must be told.
            if goes_on:
                self._schedule(0, self._go_on)
            else:
                self._rest()

    def _send_slice(self) -> bool:
        """Send what one turn of the event loop has time for, and tell whether there is more."""
        ends = self._clock() + SLICE_SECONDS
        for _ in range(SENT_AT_ONCE):
            if not self._has_more():
                return False
            self._send(*self._waiting.popleft())
            self._sent += 1
            if self._clock() >= ends:
                break
        return True

    def _has_more(self) -> bool:
        """Make the next broadcast if none waits, and tell whether one does."""
        while not self._waiting:
            broadcast = next(self._pending, None)
            if broadcast is None:
                return False
            frame = self._pack(broadcast.message)
            self._waiting.extend((frame, key, broadcast.name) for key in broadcast.keys)
        return True

    def _rest(self) -> None:
        self._is_due = self._sent > 0
        if self._is_due:
            rest = min(MAX_REST_SECONDS, REST_SECONDS + self._sent * REST_SECONDS_EACH)
            self._schedule(rest, self._begin)
            self._rests_until = self._clock() + rest
