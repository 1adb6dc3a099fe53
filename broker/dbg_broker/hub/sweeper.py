"""What is due by the clock alone: probes, checks for dead processes, and peers that are silent or take nothing.

One sweep serves all connections several times a second, instead of a task for each. Its cost depends on what is due,
not on the number of connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dbg_broker.hub import departures
from dbg_broker.hub.state import Hub
from dbg_broker.net.websocket import pack_message
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

STALL_SECONDS = 60.0
"""Seconds for which a terminal may take nothing of what waits for it: a suspended terminal attaches again."""

ACK_CHECK_SECONDS = 5.0
"""Seconds between two looks at whether the hosts of silent ranks are still there."""


PROBE = Probe()
PROBE_FRAME = pack_message(PROBE)


class Sweeper:
    """The sweep of a hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._ack_check_at = self._looked_at = self._swept = hub.timers.clock()
        self._round: Iterator[str] = iter(())

    def sweep(self, now: float) -> None:
        """Do what is due now."""
        self._probe(now)
        self._look(now)
        self._check_silent(now)
        departures.check_deaths(self._hub, now)
        self._drop_stalled(now)
        for key in self._hub.ranks.registry.expire(now):
            departures.forget(self._hub, key)

    def _probe(self, now: float) -> None:
        hub = self._hub
        due = hub.ranks.liveness.probes.due(now)
        for key in due.probe:
            hub.ranks.send_packed(key, PROBE, PROBE_FRAME, "probe")
        for key in due.silent:
            rank = hub.ranks.registry.find(key)
            if rank is not None:
                departures.fell_silent(hub, rank)

    def _look(self, now: float) -> None:
        """Look at the hosts of ranks, and at terminals, that are due."""
        absent = now - self._swept >= ABSENCE_SECONDS
        self._swept = now
        looks = self._poll_ranks(now, LOOKS_AT_ONCE)
        if looks < LOOKS_AT_ONCE and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._round = self._hub.ranks.liveness.hosts.due(now)
            self._poll_ranks(now, LOOKS_AT_ONCE - looks)
            self._poll_terminals(now, absent)

    def _poll_ranks(self, now: float, most: int) -> int:
        """Go on with the round for so many ranks, and return how many it was: fewer at its end."""
        looks = 0
        for key in islice(self._round, most):
            self._poll_rank(key, now)
            looks += 1
        return looks

    def _poll_rank(self, key: str, now: float) -> None:
        hub = self._hub
        link, rank = hub.ranks.links.get(key), hub.ranks.registry.find(key)
        if link is None:
            return
        unheard = link.connection.seconds_since_ack()
        if not hub.ranks.liveness.hosts.seen(key, unheard, now) or rank is None:
            return
        if unheard >= limits.SILENT_SECONDS:
            departures.fell_silent(hub, rank)
        elif rank.state is RankState.UNRESPONSIVE:
            # Its host is back; the rank's answer ends its silence.
            link.connection.send_message(Probe(), "probe")

    def _poll_terminals(self, now: float, absent: bool) -> None:
        for link in tuple(self._hub.terminals.links.values()):
            connection = link.connection
            if absent:
                connection.heard_at = max(now, connection.heard_at)
            unheard = now - connection.heard_at
            if unheard >= SEAT_SECONDS:
                departures.drop_silent(self._hub.connections.meters, connection)
                continue
            if unheard >= PING_SECONDS:
                connection.ping()
            key = self._hub.terminals.seats.note_silence(link.number, unheard >= limits.SILENT_SECONDS)
            if key is not None:
                self._hub.terminals.listing.changed(key)

    def _check_silent(self, now: float) -> None:
        """End the connections of silent ranks whose hosts are silent, too: the host of a suspended process answers."""
        if now < self._ack_check_at:
            return
        self._ack_check_at = now + ACK_CHECK_SECONDS
        for key in tuple(self._hub.ranks.liveness.silent):
            rank, link = self._hub.ranks.registry.find(key), self._hub.ranks.links.get(key)
            if rank is None or link is None or rank.state is not RankState.UNRESPONSIVE:
                self._hub.ranks.liveness.silent.discard(key)
            elif link.connection.seconds_since_ack() >= limits.CONNECTION_DEAD_SECONDS:
                link.connection.abort()

    def _drop_stalled(self, now: float) -> None:
        for link in tuple(self._hub.terminals.links.values()):
            if link.connection.is_stalled(now, STALL_SECONDS):
                departures.close_slow(self._hub.connections.meters, link.connection)
