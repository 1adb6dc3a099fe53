"""What is due by the clock alone: probes, checks for dead processes, and peers that are silent or take nothing.

One sweep serves all connections several times a second, instead of a task for each. Its cost depends on what is due,
not on the number of connections.
"""

from __future__ import annotations

from dbg_broker.hub import departures
from dbg_broker.hub.state import Hub
from dbg_broker.net.websocket import pack_message
from dbg_wire import limits
from dbg_wire.messages import Probe

LOOK_SECONDS = 1.0
"""Seconds between two looks at the terminals, so that a silence is known within six."""

PING_SECONDS = 2.5
"""Seconds of a terminal's silence after which it is pinged; by itself it pings every two."""

SEAT_SECONDS = 25.0
"""Seconds of a terminal's silence after which its seat is free: it may come back, but others wait for the keyboard."""

ABSENCE_SECONDS = 3.0
"""Seconds between two looks that show that the broker itself, or its host, was suspended."""

PROBE = Probe()
PROBE_FRAME = pack_message(PROBE)


class Sweeper:
    """The sweep of a hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._looked_at = self._swept = hub.timers.clock()

    def sweep(self, now: float) -> None:
        """Do what is due now."""
        self._probe(now)
        self._look(now)
        departures.check_deaths(self._hub, now)
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
        """Look at the terminals if that is due; after an absence of the broker they get time to say something."""
        absent = now - self._swept >= ABSENCE_SECONDS
        self._swept = now
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._poll_terminals(now, absent)

    def _poll_terminals(self, now: float, absent: bool) -> None:
        for link in tuple(self._hub.terminals.links.values()):
            connection = link.connection
            if absent:
                connection.heard_at = max(now, connection.heard_at)
            unheard = now - connection.heard_at
            if unheard >= SEAT_SECONDS:
                departures.drop_silent(self._hub.meters, connection)
                continue
            if unheard >= PING_SECONDS:
                connection.ping()
            key = self._hub.terminals.seats.note_silence(link.number, unheard >= limits.SILENT_SECONDS)
            if key is not None:
                self._hub.terminals.listing.changed(key)
