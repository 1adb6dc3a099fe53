"""Silent peers: ranks whose hosts no longer answer, and terminals that no longer send anything.

A rank may be busy for long, so the kernel here asks the kernel of its host, and the rank's process doesn't wake up. A
terminal is never busy for long, so it must answer itself: a tunnel before it may answer after it is gone. Of the ranks
of one host one is looked at for all, as they are silent together; a rank that is silent alone is found by its turn or
by its probes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dbg_broker.hub import departures, lost_ranks
from dbg_broker.hub.state import Hub
from dbg_wire import limits
from dbg_wire.messages import Probe
from dbg_wire.records.ranks import RankState

LOOK_SECONDS = 1.0
"""Seconds between two rounds of looks at what is due, so that a silence is known within six."""

LOOKS_AT_ONCE = 2000
"""Ranks that are looked at in one sweep: they take 5 ms."""

PING_SECONDS = 2.5
"""Seconds of a terminal's silence after which it is pinged; by itself it pings every two."""

SEAT_SECONDS = 25.0
"""Seconds of a terminal's silence after which its seat is free: it may come back, but others wait for the keyboard."""

ABSENCE_SECONDS = 3.0
"""Seconds between two looks that show that the broker itself, or its host, was suspended."""


class Silences:
    """Regular looks at the hosts of a hub's ranks, and at its terminals."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._looked_at = hub.clock()
        self._looked_for = self._looked_at
        self._round: Iterator[str] = iter(())

    def look(self, now: float) -> None:
        """Look at the connections that are due."""
        absent = now - self._looked_for >= ABSENCE_SECONDS
        self._looked_for = now
        looks = self._look_at_ranks(now, LOOKS_AT_ONCE)
        if looks < LOOKS_AT_ONCE and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._round = self._hub.host_looks.due(now)
            self._look_at_ranks(now, LOOKS_AT_ONCE - looks)
            self._look_at_terminals(now, absent)

    def _look_at_ranks(self, now: float, most: int) -> int:
        """Go on with the round for so many ranks, and return how many it was: fewer at its end."""
        looks = 0
        for key in islice(self._round, most):
            self._look_at_rank(key, now)
            looks += 1
        return looks

    def _look_at_rank(self, key: str, now: float) -> None:
        hub = self._hub
        link, rank = hub.ranks.get(key), hub.registry.find(key)
        if link is None:
            return
        unheard = link.connection.seconds_since_ack()
        if not hub.host_looks.seen(key, unheard, now) or rank is None:
            return
        if unheard >= limits.SILENT_SECONDS:
            lost_ranks.fell_silent(hub, rank)
        elif rank.state is RankState.UNRESPONSIVE:
            # Its host is back; the rank's answer ends its silence.
            link.connection.send_message(Probe(), "probe")

    def _look_at_terminals(self, now: float, absent: bool) -> None:
        for link in tuple(self._hub.terminals.values()):
            connection = link.connection
            if absent:
                connection.heard_at = max(now, connection.heard_at)
            unheard = now - connection.heard_at
            if unheard >= SEAT_SECONDS:
                departures.drop_silent(self._hub, connection)
                continue
            if unheard >= PING_SECONDS:
                connection.ping()
            key = self._hub.seats.note_silence(link.number, unheard >= limits.SILENT_SECONDS)
            if key is not None:
                self._hub.listing.changed(key)
