"""What is due by the clock alone: probes, deaths, and peers that keep nobody but themselves waiting.

One sweep for all connections, several times a second, instead of a task for each; it costs what is due rather than
what there is.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from dbg_broker.hub.silences import Silences
from dbg_broker.ranks.liveness import is_dead
from dbg_broker.ranks.registry import Rank
from dbg_wire import limits
from dbg_wire.messages import Probe, RefusalCode
from dbg_wire.ranks import RankState

if TYPE_CHECKING:
    from dbg_broker.hub.hub import Hub

STALL_SECONDS = 60.0
"""Seconds for which a terminal may take nothing of what waits for it: a suspended one comes back and attaches again."""

DEATH_CHECKS = (0.2, 1.0, 5.0)
"""Seconds after which a lost rank of this host is looked for again: its socket closes before it is a dead process."""

DEATH_CHECK_LATER = 30.0
"""Seconds between the checks after those: it may have lost its connection alone, and end at any time."""


ACK_CHECK_SECONDS = 5.0
"""Seconds between two looks at whether the hosts of silent ranks are still there."""


class Sweeper:
    """Do for a hub what is due by the clock."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._silent: set[str] = set()
        self._ack_check_at = hub.clock()
        self._deaths: list[tuple[float, str, int]] = []
        self._silences = Silences(hub)

    def sweep(self) -> None:
        """Do what is due now."""
        now = self._hub.clock()
        self._hub.give_up_overdue(now)
        self._probe(now)
        self._silences.look(now)
        self._check_silent(now)
        self._check_deaths(now)
        self._drop_stalled(now)
        for key in self._hub.registry.expire(now):
            self.forget(key)

    def lost(self, rank: Rank) -> None:
        """Look whether the process of a rank that lost its connection is gone as well, now and again later."""
        if self._hub.kernel is not None and rank.said.kernel == self._hub.kernel:
            self._check_death(self._hub.clock(), rank.key, 0)

    def silence(self, rank: Rank) -> None:
        """Note that a rank, if it is connected, does not answer."""
        if rank.is_live and rank.state is not RankState.UNRESPONSIVE:
            self._hub.registry.fell_silent(rank)
            self._hub.rank_changed(rank)
            self._hub.listing.changed(rank.key)
            self._silent.add(rank.key)

    def _probe(self, now: float) -> None:
        hub = self._hub
        due = hub.probes.due(now)
        for key in due.probe:
            if (link := hub.ranks.get(key)) is not None:
                link.connection.send_message(Probe(), "probe")
        for key in due.silent:
            rank = hub.registry.find(key)
            if rank is not None:
                self.silence(rank)

    def _check_silent(self, now: float) -> None:
        """End the connections of silent ranks whose hosts are silent, too: that's no suspended process."""
        if now < self._ack_check_at:
            return
        self._ack_check_at = now + ACK_CHECK_SECONDS
        for key in tuple(self._silent):
            rank, link = self._hub.registry.find(key), self._hub.ranks.get(key)
            if rank is None or link is None or rank.state is not RankState.UNRESPONSIVE:
                self._silent.discard(key)
            elif link.connection.seconds_since_ack() >= limits.CONNECTION_DEAD_SECONDS:
                link.connection.abort()

    def _check_deaths(self, now: float) -> None:
        while self._deaths and self._deaths[0][0] <= now:
            _, key, attempt = heapq.heappop(self._deaths)
            self._check_death(now, key, attempt)

    def _check_death(self, now: float, key: str, attempt: int) -> None:
        rank = self._hub.registry.find(key)
        if rank is None or rank.state is not RankState.LOST:
            return
        if is_dead(rank.said.pid):
            self._hub.registry.found_dead(rank, now)
            self._hub.rank_changed(rank)
            self._hub.listing.changed(key)
            return
        delay = DEATH_CHECKS[attempt] if attempt < len(DEATH_CHECKS) else DEATH_CHECK_LATER
        heapq.heappush(self._deaths, (now + delay, key, attempt + 1))

    def _drop_stalled(self, now: float) -> None:
        for link in tuple(self._hub.terminals.values()):
            if link.connection.is_stalled(now, STALL_SECONDS):
                self._hub.close_slow(link.connection)

    def forget(self, key: str, why: str = "the rank ended long ago and is forgotten") -> None:
        """Have nobody know any more a rank that the registry has removed."""
        hub = self._hub
        hub.listing.changed(key)
        hub.holds.forget(key)
        if hub.crashes.forget(key):
            hub.spread.changed()
        for number in hub.sessions.rank_gone(key):
            hub.refuse(hub.terminals[number].connection, RefusalCode.GONE, why)
