"""The owner's side of legs: the credit window, the outbox behind it, and what becomes of silent and closed ones."""

from __future__ import annotations

from dbg_broker.hub.cluster.messages import (
    LegSilent,
)
from dbg_broker.hub.sweeper import SEAT_SECONDS
from dbg_wire import limits
from tests.unit.broker.hub.cluster.conftest import several
from tests.unit.broker.hub.cluster.several import Several, key

__all__ = ["several"]


async def test_a_silent_terminal_of_another_broker_gives_its_seat_back(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    await several.brokers[1].seated(key(0))
    hub, cluster = several.brokers[0].hub, several.clusters[0]
    (terminal,) = cluster.hosted._legs["two"].values()
    clock, late = hub.timers.clock, 0.0
    hub.timers.clock = lambda: clock() + late
    cluster.hosted._silent("two", LegSilent(leg=terminal.leg, seconds=limits.SILENT_SECONDS))
    await several.until(lambda: hub.terminals.seats.counts_at(key(0)).driver_silent)
    cluster.hosted._silent("two", LegSilent(leg=terminal.leg, seconds=0.0))
    await several.until(lambda: not hub.terminals.seats.counts_at(key(0)).driver_silent)
    cluster.hosted._silent("two", LegSilent(leg=terminal.leg, seconds=SEAT_SECONDS))
    await several.until(lambda: not hub.terminals.seats.is_attended(key(0)))
    assert not cluster.hosted
