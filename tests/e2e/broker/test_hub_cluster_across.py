"""What is noted, guarded and judged where, if terminal and rank are at two brokers."""

from __future__ import annotations

from dbg_broker.events.event import Event, EventKind
from dbg_broker.events.occasions import Occasions
from tests.unit.broker.hub.cluster.conftest import several
from tests.unit.broker.hub.cluster.several import Several

__all__ = ["several"]


async def test_a_run_that_stops_at_all_brokers_is_one_event(several: Several) -> None:
    told: list[Event] = []
    for broker, cluster in zip(several.brokers, several.clusters, strict=True):
        broker.hub.journal.occasions = occasions = Occasions(told.append, broker.hub.timers)
        occasions.broker, occasions.speaks_for = cluster.name, cluster.members.speaks_for
        for other in several.clusters:
            if other is not cluster:
                other.members.saw(cluster.members.own.replace(tells=True))
        cluster.members.own = cluster.members.own.replace(tells=True)
    for number, broker in enumerate(several.brokers):
        await broker.rank(number)
    for number in range(3):
        await several.listed(number)
    await several.until(lambda: bool(told))
    assert [(event.kind, event.ranks) for event in told] == [(EventKind.STOP, "0-2")]
    assert told[0].broker in ("one", "two", "three")
