"""Who owns which rank, by buckets in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from dbg_broker.hub.cluster.cluster import Cluster
from dbg_broker.hub.cluster.owners import Owners
from dbg_broker.timers import Timers
from tests.support.memory_bus import MemoryBuckets, MemoryNats
from tests.unit.broker.hub.cluster.brokers import settled


class Clock:
    """A clock and timers that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def timers(self) -> Timers:
        return Timers(lambda: self.now, lambda seconds, call: self.due.append((self.now + seconds, call)))

    def move(self, seconds: float) -> None:
        self.now += seconds
        ripe = [call for at, call in self.due if at <= self.now]
        self.due = [(at, call) for at, call in self.due if at > self.now]
        for call in ripe:
            call()


class Broker:
    """The claims of one broker, and what its cluster is told."""

    def __init__(self, nats: MemoryNats, name: str) -> None:
        self.name = name
        self.fences: dict[str, int] = {}
        self.lost: list[str] = []
        self.certain: list[set[int]] = []
        self.claimed, self.lost_rank, self.resend = self.fences.__setitem__, self.lost.append, self.certain.append
        self.clock = Clock()
        self.owners = Owners(cast(Cluster, self), MemoryBuckets(nats), self.clock.timers())


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


async def test_while_nats_is_gone_nothing_is_doubtful_and_claims_wait() -> None:
    nats = MemoryNats()
    (one,) = await started(nats, "one")
    one.owners.claim("before", 1)
    await settled()
    nats.is_up = False
    one.owners.claim("during", 1)
    one.owners.came_back()
    await settled()
    assert one.owners.withholds("before", 1)
    one.owners.down()
    assert one.certain == [{1}]
    nats.is_up = True
    one.clock.move(1.0)
    await settled()
    assert set(one.fences) == {"before", "during"}
    assert one.owners.waiting == 0


async def test_a_claim_that_nats_does_not_take_is_made_again() -> None:
    nats = MemoryNats()
    (one,) = await started(nats, "one")
    nats.is_up = False
    one.owners.claim("rank", 1)
    await settled()
    assert (one.fences, one.owners.waiting) == ({}, 1)
    nats.is_up = True
    one.clock.move(1.0)
    await settled()
    assert set(one.fences) == {"rank"}


async def test_an_empty_nats_begins_anew_above_all_fences_that_were() -> None:
    nats = MemoryNats()
    one, two = await started(nats, "one", "two")
    for number in range(5):
        one.owners.claim(f"rank{number}", 1)
    await settled()
    before = dict(one.fences)
    nats.go()
    nats.come()
    # A broker that has just started knows of no beginning before, and may be the first.
    (new,) = await started(nats, "new")
    new.owners.claim("its own", 1)
    await one.owners.up()
    await two.owners.up()
    await settled()
    assert min(one.fences.values()) > max(before.values())
    two.owners.claim("rank0", 2)
    await settled()
    assert two.fences["rank0"] > one.fences["rank0"]
