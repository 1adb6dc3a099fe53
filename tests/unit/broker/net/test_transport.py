"""Bytes that are no TLS, and messages without end."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode

from dbg_broker.net import websocket
from dbg_broker.net.tcp import peer_name
from dbg_wire import limits
from tests.unit.broker.peers import SECONDS, Broker, Peer, registration, running_broker


@pytest.mark.parametrize(
    ("address", "name"),
    [(("10.0.0.1", 5), "10.0.0.1:5"), (("::1", 5, 0, 0), "[::1]:5"), ("", "?"), (None, "?")],
)
def test_addresses_are_written_as_people_do(address: object, name: str) -> None:
    assert peer_name(address) == name


async def test_what_is_no_tls_ends_its_connection_and_counts_as_a_failure(tmp_path: Path) -> None:
    async with running_broker(tmp_path, tls=True) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.endpoint.port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), SECONDS)
        writer.close()
        assert await broker.terminal()
        assert broker.hub.connections.meters.failures == 1


KEY = registration().identity.key
PART = 512 * limits.KIB


async def send_part(peer: Peer, size: int) -> None:
    """Send the first ``size`` bytes of a message whose header announces the largest size allowed."""
    whole = Frame(Opcode.TEXT, bytes(limits.MAX_FRAME_BYTES)).serialize(mask=True)
    peer.websocket.transport.write(whole[:size])
    await asyncio.sleep(0)


async def test_parts_of_fragmented_messages_count_too(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MESSAGE_SECONDS", 0.2)
    rank = await broker.rank()
    rank.websocket.transport.write(Frame(Opcode.TEXT, bytes(1000), fin=False).serialize(mask=True))
    assert (await rank.closed())[0] == 4001


async def test_all_parts_together_are_bounded(broker: Broker) -> None:
    broker.hub.connections.unfinished.most = 4 * PART
    honest = await broker.rank(99)
    await send_part(honest, 20_000)
    for number in range(12):
        await send_part(await broker.rank(number), PART + 1000 * number)
    await broker.left(lambda hub: len(hub.ranks.links) == 4)
    assert KEY.replace("gpu013:0/8800", "gpu013:99/8899") in broker.hub.ranks.links
    assert broker.hub.connections.unfinished.size <= 4 * PART
