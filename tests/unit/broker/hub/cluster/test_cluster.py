"""One broker's part in a cluster, with buses in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dbg_broker.hub.cluster.cluster import ABSENCE_SECONDS, Cluster
from dbg_broker.hub.cluster.members import GONE_SECONDS, HEARTBEAT_SECONDS
from dbg_broker.hub.cluster.messages import LegTaken, Sync, encode
from dbg_broker.hub.state import Hub
from dbg_broker.net.bus.buckets import BucketName
from dbg_broker.net.connections import Connections
from dbg_broker.timers import Timers
from tests.support.memory_bus import MemoryNats
from tests.unit.broker.hub.cluster.brokers import join_cluster, joined, new_cluster, settled


async def test_brokers_come_to_know_each_other_and_one_that_ends_is_gone_at_once() -> None:
    nats = MemoryNats()
    one, two, three = await joined(nats, "one", "two", "three")
    assert [member.name for member in one.members.others()] == ["three", "two"]
    assert [member.name for member in three.members.others()] == ["one", "two"]
    assert sorted(nats.buses["two"].peers) == ["one", "three"]
    await two.end()
    await settled()
    assert [member.name for member in one.members.others()] == ["three"]
    assert sorted(nats.buses["one"].peers) == ["three"]
    assert "two" not in nats.entries[BucketName.BROKERS]


async def test_a_broker_that_has_joined_tells_so_each_second_before_it_serves() -> None:
    nats, due = MemoryNats(), list[tuple[float, Callable[[], None]]]()
    timers = Timers(lambda: 100.0, lambda seconds, call: due.append((seconds, call)))
    cluster = join_cluster(Hub(timers, Connections(timers), host="one", pid=1, kernel=None), nats, "one")
    await cluster.begin()
    told = nats.entries[BucketName.BROKERS]
    for _ in range(3):
        before = told["one"].revision
        ((_, beat),) = [one for one in due if one[0] == HEARTBEAT_SECONDS]
        due.clear()
        beat()
        assert told["one"].revision > before
    cluster.leave()
    due[0][1]()
    assert "one" not in told
    await cluster.end()


async def test_a_broker_of_another_site_is_nobody() -> None:
    nats = MemoryNats()
    one, two = new_cluster(nats, "one"), new_cluster(nats, "two")
    two.members.own = two.members.own.replace(site="other")
    await one.begin()
    await two.begin()
    await settled()
    assert (len(one.members), len(two.members)) == (0, 0)


async def test_a_message_reaches_the_function_for_its_kind_and_none_of_a_stranger_does() -> None:
    nats = MemoryNats()
    one, two = await joined(nats, "one", "two")
    got: list[tuple[str, object]] = []
    two.on(LegTaken, lambda sender, message: got.append((sender, message)))
    assert one.send("two", LegTaken(leg=1, count=5))
    assert one.send("two", Sync(number=1))
    assert nats.join("stranger").send("two", encode(LegTaken(leg=2, count=6)))
    await settled()
    assert got == [("one", LegTaken(leg=1, count=5))]


async def test_what_can_not_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    nats = MemoryNats()
    _, two = await joined(nats, "one", "two")
    nats.buses["one"].send("two", b"\xff")
    await settled()
    assert "the broker one is not understood" in caplog.text
    assert two.name == "two"


async def two_of_which_the_first_has_a_clock() -> tuple[MemoryNats, list[float], Cluster]:
    nats, now = MemoryNats(), [100.0]
    one, two = new_cluster(nats, "one", lambda: now[0]), new_cluster(nats, "two")
    for cluster in (one, two):
        await cluster.begin()
    await settled()
    return nats, now, one


async def test_nobody_is_gone_for_a_broker_that_was_away_itself() -> None:
    _, now, one = await two_of_which_the_first_has_a_clock()
    now[0] += 60.0
    one.sweep(now[0])
    assert len(one.members) == 1
    for _ in range(round(GONE_SECONDS)):
        now[0] += ABSENCE_SECONDS / 3
        one.sweep(now[0])
    assert len(one.members) == 0


async def test_nobody_is_gone_while_nats_is_gone() -> None:
    nats, now, one = await two_of_which_the_first_has_a_clock()
    nats.go()
    for _ in range(30):
        now[0] += 1.0
        one.sweep(now[0])
    assert len(one.members) == 1
    nats.come()
    one.sweep(now[0])
    await settled()
    assert len(one.members) == 1
    assert set(nats.entries[BucketName.BROKERS]) == {"one", "two"}
