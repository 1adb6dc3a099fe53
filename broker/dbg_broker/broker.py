"""The broker as a whole: relay, ranks, terminals and admission. Each part gets the parts that it uses."""

from __future__ import annotations

from dbg_broker.admission import Admission
from dbg_broker.home.tokens import Tokens
from dbg_broker.journal.journal import Journal
from dbg_broker.net.handshake_slots import Capacity
from dbg_broker.net.metrics import Meters
from dbg_broker.net.outbox import Turns
from dbg_broker.ranks.from_ranks import FromRanks
from dbg_broker.ranks.liveness import ProbeIntervals
from dbg_broker.ranks.table import RankTable
from dbg_broker.relay.relay import Relay
from dbg_broker.terminals.terminals import Terminals
from dbg_broker.timers import Timers
from dbg_broker.welcome import Welcomes


class Broker:
    """All parts of one broker; ``kernel`` identifies the kernel that the broker runs on, or is None if unknown."""

    def __init__(
        self,
        timers: Timers,
        tokens: Tokens,
        welcomes: Welcomes,
        *,
        kernel: str | None,
        meters: Meters | None = None,
        capacity: Capacity | None = None,
        intervals: ProbeIntervals | None = None,
    ) -> None:
        self.turns = turns = Turns(timers)
        self.timers = timers
        self.meters = meters or Meters()
        self.capacity = capacity or Capacity()
        self.relay = Relay(self.meters)
        self.ranks = RankTable(timers, turns, self.relay, welcomes, kernel=kernel, intervals=intervals)
        self.from_ranks = FromRanks(timers, turns, self.relay, welcomes, self.ranks)
        self.journal = Journal(self.ranks.registry, timers)
        self.ranks.add_watcher(self.journal)
        self.terminals = Terminals(
            timers,
            turns,
            self.relay,
            welcomes,
            self.journal,
            capacity=self.capacity,
            meters=self.meters,
            table=self.ranks,
            asked=self.from_ranks.asked,
            guards=self.from_ranks.guards,
        )
        self.admission = Admission(
            tokens,
            timers,
            welcomes,
            self.relay,
            self.journal,
            capacity=self.capacity,
            meters=self.meters,
            table=self.ranks,
            ranks=self.from_ranks,
            terminals=self.terminals,
        )

    def sweep(self, now: float) -> None:
        """Do the work that depends on time."""
        self.ranks.sweep(now)
        self.terminals.sweep(now)
