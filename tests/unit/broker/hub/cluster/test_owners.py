"""Who owns which rank, by buckets in memory."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from dbg_broker.hub.cluster.cluster import Cluster
from dbg_broker.hub.cluster.owners import AT_ONCE, RENEW_SECONDS, REVISION_BITS, Owners
from dbg_broker.net.bus.buckets import BucketName
from dbg_broker.timers import Timers
from tests.support.memory_bus import MemoryBuckets, MemoryNats
from tests.unit.broker.hub.cluster.brokers import settled


class Clock:
    """A clock and timers that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, object]] = []

    def timers(self) -> Timers:
        return Timers(lambda: self.now, lambda seconds, call: self.due.append((self.now + seconds, call)))

    def move(self, seconds: float) -> None:
        self.now += seconds
        ripe = [call for at, call in self.due if at <= self.now]
        self.due = [(at, call) for at, call in self.due if at > self.now]
        for call in ripe:
            assert callable(call)
            call()


class Broker:
    """The claims of one broker, and what its cluster is told."""

    def __init__(self, nats: MemoryNats, name: str, clock: Clock | None = None) -> None:
        self.name = name
        self.clock = clock or Clock()
        self.fences: dict[str, int] = {}
        self.lost: list[str] = []
        self.certain: list[set[int]] = []
        self.claimed, self.lost_rank, self.resend = self.fences.__setitem__, self.lost.append, self.certain.append
        self.owners = Owners(cast(Cluster, self), MemoryBuckets(nats), self.clock.timers())


async def started(nats: MemoryNats, *names: str) -> list[Broker]:
    brokers = [Broker(nats, name) for name in names]
    for broker in brokers:
        await broker.owners.up()
    return brokers


async def test_a_claim_stands_and_its_fence_grows_with_each() -> None:
    (one,) = await started(MemoryNats(), "one")
    one.owners.claim("rank", 1)
    await settled()
    first = one.fences["rank"]
    assert first >> REVISION_BITS == 1
    one.owners.claim("rank", 2, first)
    await settled()
    assert one.fences["rank"] > first
    assert one.owners.waiting == 0


@pytest.mark.parametrize("knows", [True, False], ids=["which knew the old owner", "which knew nothing"])
async def test_a_rank_that_dials_another_broker_is_that_ones(*, knows: bool) -> None:
    one, two = await started(MemoryNats(), "one", "two")
    one.owners.claim("rank", 1)
    await settled()
    two.owners.claim("rank", 2, one.fences["rank"] if knows else 0)
    await settled()
    assert two.fences["rank"] > one.fences["rank"]
    assert two.lost == []


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


async def test_who_comes_back_has_keys_wait_until_it_knows_what_is_its_own() -> None:
    one, two = await started(MemoryNats(), "one", "two")
    for key in ("moved", "stayed"):
        one.owners.claim(key, 1)
    await settled()
    two.owners.claim("moved", 2, one.fences["moved"])
    await settled()
    one.owners.came_back()
    assert one.owners.withholds("moved", 1)
    assert one.owners.withholds("stayed", 2)
    assert one.owners.withholds("stayed", 3)
    assert not one.owners.withholds("other", 1)
    await settled()
    assert (one.lost, one.certain) == (["moved"], [{2, 3}])
    assert not one.owners.withholds("moved", 1)
    assert not one.owners.withholds("stayed", 2)


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


async def test_a_beginning_of_the_same_number_is_another_one() -> None:
    nats = MemoryNats()
    (one,) = await started(nats, "one")
    one.owners.claim("rank", 1)
    await settled()
    before = one.fences["rank"]
    nats.go()
    nats.come()
    await started(nats, "new")
    await one.owners.up()
    await settled()
    assert one.fences["rank"] >> REVISION_BITS > before >> REVISION_BITS


async def test_a_rank_that_is_listed_no_more_is_taken_out_unless_another_has_it() -> None:
    nats = MemoryNats()
    one, two = await started(nats, "one", "two")
    for key in ("ended", "moved"):
        one.owners.claim(key, 1)
    await settled()
    two.owners.claim("moved", 2)
    await settled()
    one.owners.release("ended")
    one.owners.release("moved")
    await settled()
    held = {entry.value for entry in nats.entries[BucketName.RANKS].values()}
    assert not any(b"ended" in value for value in held)
    assert any(b"moved" in value and b"two" in value for value in held)


async def test_thousands_of_claims_are_asked_for_so_many_at_once() -> None:
    nats = MemoryNats()
    (one,) = await started(nats, "one")
    tasks_before = len(asyncio.all_tasks())
    for number in range(20 * AT_ONCE):
        one.owners.claim(f"rank{number}", 1)
    assert len(asyncio.all_tasks()) - tasks_before == AT_ONCE
    for _ in range(20):
        await settled()
    assert len(one.fences) == 20 * AT_ONCE


async def test_of_claims_of_one_rank_that_wait_the_latest_counts() -> None:
    nats = MemoryNats()
    (one,) = await started(nats, "one")
    nats.is_up = False
    for dial in range(1, 6):
        one.owners.claim("rank", dial)
        await settled()
    assert one.owners.waiting == 1
    nats.is_up = True
    one.clock.move(1.0)
    await settled()
    (entry,) = [entry for entry in nats.entries[BucketName.RANKS].values() if b"rank" in entry.value]
    assert b'"dial":5' in entry.value


async def test_claims_are_renewed_before_they_expire() -> None:
    (one,) = await started(MemoryNats(), "one")
    one.owners.claim("rank", 1)
    await settled()
    first = one.fences["rank"]
    one.clock.now += RENEW_SECONDS / 2
    one.owners.sweep(one.clock.now)
    await settled()
    assert one.fences["rank"] == first
    one.clock.now += RENEW_SECONDS / 2
    one.owners.sweep(one.clock.now)
    await settled()
    assert one.fences["rank"] > first


async def test_an_entry_that_can_not_be_read_is_nobodys() -> None:
    nats = MemoryNats()
    one, two = await started(nats, "one", "two")
    one.owners.claim("rank", 1)
    await settled()
    (name,) = [name for name, entry in nats.entries[BucketName.RANKS].items() if b"rank" in entry.value]
    nats.write(BucketName.RANKS, name, b"\xff{")
    two.owners.claim("rank", 1)
    await settled()
    assert "rank" in two.fences
