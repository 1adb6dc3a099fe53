"""The broker, put together: relay, ranks, terminals, and who gets in. Each is given the parts that it uses."""

from __future__ import annotations

from dataclasses import dataclass

from dbg_broker.admission import Admission
from dbg_broker.home.tokens import Tokens
from dbg_broker.journal.journal import Journal
from dbg_broker.net.capacity import Capacity
from dbg_broker.net.metrics import Meters
from dbg_broker.net.turns import Turns
from dbg_broker.ranks.asked import Asked
from dbg_broker.ranks.from_ranks import FromRanks
from dbg_broker.ranks.guards import Guards
from dbg_broker.ranks.liveness import ProbeIntervals
from dbg_broker.ranks.table import RankTable
from dbg_broker.relay.relay import Relay
from dbg_broker.terminals.asking import Asking
from dbg_broker.terminals.from_terminals import FromTerminals
from dbg_broker.terminals.link import TerminalLink
from dbg_broker.terminals.listing import Listing
from dbg_broker.terminals.notices import Notices
from dbg_broker.terminals.terminals import Terminals
from dbg_broker.timers import Timers
from dbg_broker.welcome import Welcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """The parts of a broker, for the process that serves with it."""

    timers: Timers
    meters: Meters
    capacity: Capacity
    relay: Relay
    journal: Journal
    ranks: RankTable
    asked: Asked
    from_ranks: FromRanks
    listing: Listing
    terminals: Terminals
    from_terminals: FromTerminals
    admission: Admission

    def sweep(self, now: float) -> None:
        """Do what is due by the clock."""
        self.ranks.sweep(now)
        self.terminals.sweep(now)


def new_broker(
    timers: Timers,
    tokens: Tokens,
    welcomes: Welcomes,
    *,
    kernel: str | None,
    meters: Meters | None = None,
    capacity: Capacity | None = None,
    intervals: ProbeIntervals | None = None,
) -> Broker:
    """Return a broker without a connection; ``kernel`` is the name of its host's kernel."""
    meters, capacity, turns = meters or Meters(), capacity or Capacity(), Turns(timers)
    relay = Relay(meters)
    ranks = RankTable(timers, turns, relay, welcomes, kernel=kernel, intervals=intervals)
    asked = Asked(ranks, turns)
    guards = Guards(timers, relay, welcomes, ranks, asked)
    from_ranks = FromRanks(timers, relay, welcomes, table=ranks, asked=asked, guards=guards)
    journal = Journal(ranks.registry, timers)
    links: dict[int, TerminalLink] = {}
    listing = Listing(timers, turns, ranks, relay.seats, links)
    notices = Notices(relay.seats, links)
    for watcher in (listing, notices, journal):
        ranks.add_watcher(watcher)
    terminals = Terminals(
        relay,
        journal,
        ranks,
        asked,
        links=links,
        notices=notices,
        capacity=capacity,
        meters=meters,
        now=timers.clock(),
    )
    asking = Asking(
        timers, turns, relay, journal, table=ranks, asked=asked, guards=guards, listing=listing, notices=notices
    )
    from_terminals = FromTerminals(
        relay,
        welcomes,
        journal,
        table=ranks,
        terminals=terminals,
        asking=asking,
        listing=listing,
        notices=notices,
    )
    admission = Admission(
        tokens,
        timers,
        journal,
        capacity=capacity,
        meters=meters,
        welcomes=welcomes,
        relay=relay,
        ranks=ranks,
        from_ranks=from_ranks,
        terminals=terminals,
        from_terminals=from_terminals,
    )
    return Broker(
        timers=timers,
        meters=meters,
        capacity=capacity,
        relay=relay,
        journal=journal,
        ranks=ranks,
        asked=asked,
        from_ranks=from_ranks,
        listing=listing,
        terminals=terminals,
        from_terminals=from_terminals,
        admission=admission,
    )
