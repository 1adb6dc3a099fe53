"""A flood on one connection delays the keys of no other."""

from __future__ import annotations

import asyncio
import socket

import pytest

from dbg_wire import limits
from dbg_wire.codec import Input
from dbg_wire.messages import Sender
from tests.unit.broker.net.test_turns import flood
from tests.unit.broker.peers import Broker, Peer, narrow, registration


async def test_a_rank_that_reads_no_refusals_is_closed_and_keys_go_on(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At the real bound on a rank's bytes, it would take half a minute until too many refusals wait.
    monkeypatch.setattr(limits, "MAX_REPORTED_PER_SECOND", 1024 * limits.MIB)
    # With its usual buffer the kernel takes megabytes of refusals, and the broker would write them for seconds.
    broker.server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * limits.KIB)
    websocket = await broker.dial("/agent", broker.tokens.rank, max_queue=1, sock=narrow(broker))
    flooding = Peer(websocket, Sender.AGENT)
    rank = await broker.rank()
    driver = await broker.seated(registration().identity.key)
    attacked = asyncio.create_task(flood(flooding, 100_000))
    left = asyncio.create_task(broker.left(lambda hub: len(hub.links) == 2))
    offset = 0
    while not left.done():
        key = Input(session=1, stop=1, generation=1, offset=offset, data=b"n")
        await driver.send(key)
        assert await rank.expect_data() == key
        offset += 1
    await left
    attacked.cancel()
    flooding.websocket.transport.resume_reading()
    assert offset > 10
