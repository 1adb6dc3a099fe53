"""One broker's part in a cluster, with buses in memory."""

from __future__ import annotations

import asyncio

import pytest

from dbg_broker.hub.cluster.cluster import Cluster
from dbg_broker.hub.cluster.messages import LegTaken, Sync
from tests.broker.hub.cluster.brokers import new_cluster
from tests.support.memory_bus import MemoryNats


async def test_a_message_reaches_the_function_for_its_kind() -> None:
    nats = MemoryNats()
    one, two = new_cluster(nats, "one"), new_cluster(nats, "two")
    got: list[tuple[str, object]] = []
    two.on(LegTaken, lambda sender, message: got.append((sender, message)))
    assert one.send("two", LegTaken(leg=1, count=5))
    assert one.send("two", Sync())
    await asyncio.sleep(0)
    assert got == [("one", LegTaken(leg=1, count=5))]


async def test_what_can_not_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    nats = MemoryNats()
    new_cluster(nats, "one")
    cluster: Cluster = new_cluster(nats, "two")
    nats.buses["one"].send("two", b"\xff")
    await asyncio.sleep(0)
    assert "the broker one is not understood" in caplog.text
    assert cluster.name == "two"
