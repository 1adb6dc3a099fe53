"""What is due by the clock alone: probes, checks for dead processes, and peers that are silent or take nothing.

One sweep serves all connections several times a second, instead of a task for each. Its cost depends on what is due,
not on the number of connections.
"""

from __future__ import annotations

from dbg_broker.hub import departures, lost_ranks
from dbg_broker.hub.silences import Silences
from dbg_broker.hub.state import Hub
from dbg_broker.net.frames import pack_message
from dbg_wire import limits
from dbg_wire.messages import Probe
from dbg_wire.records.ranks import RankState

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
        self._ack_check_at = hub.clock()
        self._silences = Silences(hub)

    def sweep(self, now: float) -> None:
        """Do what is due now."""
        self._probe(now)
        self._silences.look(now)
        self._check_silent(now)
        lost_ranks.check_deaths(self._hub, now)
        self._drop_stalled(now)
        for key in self._hub.registry.expire(now):
            lost_ranks.forget(self._hub, key)

    def _probe(self, now: float) -> None:
        hub = self._hub
        due = hub.probe_schedule.due(now)
        for key in due.probe:
            hub.tell_rank_frame(key, PROBE, PROBE_FRAME, "probe")
        for key in due.silent:
            rank = hub.registry.find(key)
            if rank is not None:
                lost_ranks.fell_silent(hub, rank)

    def _check_silent(self, now: float) -> None:
        """End the connections of silent ranks whose hosts are silent, too: the host of a suspended process answers."""
        if now < self._ack_check_at:
            return
        self._ack_check_at = now + ACK_CHECK_SECONDS
        for key in tuple(self._hub.silent):
            rank, link = self._hub.registry.find(key), self._hub.ranks.get(key)
            if rank is None or link is None or rank.state is not RankState.UNRESPONSIVE:
                self._hub.silent.discard(key)
            elif link.connection.seconds_since_ack() >= limits.CONNECTION_DEAD_SECONDS:
                link.connection.abort()

    def _drop_stalled(self, now: float) -> None:
        for link in tuple(self._hub.terminals.values()):
            if link.connection.is_stalled(now, STALL_SECONDS):
                departures.close_slow(self._hub, link.connection)
