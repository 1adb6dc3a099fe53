"""Who owns which rank, by buckets in memory."""

from __future__ import annotations

from typing import cast

import pytest

from dbg_broker.hub.cluster.cluster import Cluster
from dbg_broker.hub.cluster.owners import Owners
from dbg_broker.timers import Timers
from tests.support.memory_bus import MemoryBuckets, MemoryNats
from tests.unit.broker.hub.cluster.brokers import settled


class Broker:
    """The claims of one broker, and what its cluster is told."""

    def __init__(self, nats: MemoryNats, name: str) -> None:
        self.name = name
        self.fences: dict[str, int] = {}
        self.lost: list[str] = []
        self.certain: list[set[int]] = []
        self.claimed, self.lost_rank, self.resend = self.fences.__setitem__, self.lost.append, self.certain.append
        self.owners = Owners(cast(Cluster, self), MemoryBuckets(nats), Timers(lambda: 0.0, lambda seconds, call: None))


async def started(nats: MemoryNats, *names: str) -> list[Broker]:
    brokers = [Broker(nats, name) for name in names]
    for broker in brokers:
        await broker.owners.up()
    return brokers


@pytest.mark.parametrize("first", ["old", "new"])
async def test_of_two_claims_the_one_with_the_later_connection_wins_whatever_comes_first(first: str) -> None:
    one, two = await started(MemoryNats(), "one", "two")
    claims = [(one, 1), (two, 2)]
    for broker, dial in claims if first == "old" else claims[::-1]:
        broker.owners.claim("rank", dial)
    await settled()
    assert two.fences["rank"] == max([*one.fences.values(), *two.fences.values()])
    assert two.lost == []
    # The older one has been refused, or finds the newer one as soon as it looks.
    one.owners.came_back()
    await settled()
    assert one.lost == ["rank"]
