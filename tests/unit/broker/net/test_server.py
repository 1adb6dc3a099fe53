"""Slow readers, floods and the shutdown, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from dbg_broker.hub import sweeper
from dbg_broker.net import server
from dbg_wire import limits
from dbg_wire.codec import Output
from dbg_wire.messages import (
    Audience,
    Discarded,
    Greet,
    Mode,
    Probe,
    Repaint,
    Seat,
    Sender,
    Welcome,
)
from tests.unit.broker.peers import SECONDS, Broker, Peer, attach, narrow, registration, running_broker

KEY = registration().identity.key
CHUNK = bytes(16 * 1024)


async def test_slow_terminal_costs_a_mebibyte_and_nobody_else_anything(any_broker: Broker) -> None:
    rank = await any_broker.rank()
    healthy = await any_broker.seated(KEY)
    await rank.expect(Repaint)
    slow = await any_broker.seated(KEY, "slow@h", Mode.WATCH, max_queue=1, sock=narrow(any_broker))
    await rank.expect(Repaint)
    slow.websocket.transport.pause_reading()
    link = next(link for link in any_broker.hub.terminals.links.values() if link.name == "slow@h")
    most = 0
    for number in range(400):
        piece = Output(session=1, offset=number * len(CHUNK), data=CHUNK)
        await rank.send(piece)
        assert await healthy.expect_data() == piece
        most = max(most, any_broker.hub.connections.open[link.number].waiting_bytes)
    assert any_broker.hub.connections.meters.dropped_frames > 0
    assert most <= limits.MAX_VIEWER_BACKLOG
    slow.websocket.transport.resume_reading()
    screen = Output(session=1, offset=400 * len(CHUNK), data=b"the whole screen")

    async def read_until_screen() -> int:
        received = 0
        while await slow.expect_data() != screen:
            received += 1
        return received

    async def draw_when_asked() -> None:
        while True:
            await rank.expect(Repaint)
            await rank.send(screen)

    drawing = asyncio.create_task(draw_when_asked())
    assert await read_until_screen() < 200
    drawing.cancel()


async def test_terminal_that_takes_nothing_is_disconnected(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "STALL_SECONDS", 0.1)
    rank = await broker.rank()
    slow = await broker.seated(KEY, max_queue=1)
    slow.websocket.transport.pause_reading()
    left = asyncio.create_task(rank.expect(Audience, lambda audience: audience.viewers == 0))
    for number in range(64):
        await rank.send(Output(session=1, offset=number * len(CHUNK), data=CHUNK))
    await left
    assert broker.hub.connections.meters.disconnected == 1


async def test_terminal_that_leaves_no_room_for_messages_is_disconnected(broker: Broker) -> None:
    rank = await broker.rank()
    slow = await broker.seated(KEY, max_queue=1)
    slow.websocket.transport.pause_reading()
    left = asyncio.create_task(rank.expect(Audience, lambda audience: audience.viewers == 0))
    said = Discarded(generation=1, offset=1, count=1, reason="x" * limits.MAX_TEXT)
    for _ in range(2 * limits.MAX_VIEWER_BACKLOG // limits.MAX_TEXT):
        await rank.say(said)
    await left
    assert broker.hub.connections.meters.disconnected == 1


async def test_ping_flood_without_reading_ends_the_connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    # At the real bound on a rank's bytes, it would take half a minute until too many answers wait.
    monkeypatch.setattr(limits, "MAX_REPORTED_PER_SECOND", 1024 * limits.MIB)
    rank = await broker.rank()
    rank.websocket.transport.pause_reading()

    async def flood() -> None:
        while True:
            for _ in range(100):
                rank.websocket.protocol.send_ping(bytes(125))
            rank.websocket.send_data()
            await asyncio.sleep(0)

    flooding = asyncio.create_task(flood())
    await broker.left(lambda hub: not hub.ranks.links)
    flooding.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await flooding


async def test_fragmented_messages_are_put_together(broker: Broker) -> None:
    terminal = Peer(await broker.dial("/client", broker.tokens.driver), Sender.CLIENT)
    text = '{"type":"greet","minor":0,"release":"0.1.0","name":"mé@h"}'

    async def pieces() -> object:
        for character in text:
            yield character

    await terminal.websocket.send(pieces())  # type: ignore[arg-type]
    assert await terminal.expect(Welcome)


async def test_shutdown_says_goodbye_to_everyone(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        rank, terminal = await broker.rank(), await broker.seated(KEY)
        _, writer = await asyncio.open_connection("127.0.0.1", broker.endpoint.port)
        stopping = asyncio.create_task(broker.server.stop())
        assert (await rank.closed())[0] == 1001
        assert (await terminal.closed())[0] == 1001
        await asyncio.wait_for(stopping, SECONDS)
        writer.close()


async def test_shutdown_waits_for_nobody_where_nobody_is(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SHUTDOWN_SECONDS", 2 * SECONDS)
    await asyncio.wait_for(broker.server.stop(), SECONDS)


async def test_two_thousand_and_more_may_knock_at_once(broker: Broker) -> None:
    backlog = broker.server.listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    assert backlog == 1
    ranks = await asyncio.gather(*(broker.rank(number) for number in range(64)))
    assert len(ranks) == broker.hub.ranks.registry.live() == 64


async def test_first_probe_comes_with_the_first_terminal(broker: Broker) -> None:
    rank = await broker.rank()
    await broker.seated(KEY)
    await rank.expect(Probe)


async def test_terminals_through_tls(tmp_path: Path) -> None:
    async with running_broker(tmp_path, tls=True) as broker:
        rank = await broker.rank()
        terminal = await broker.terminal()
        await terminal.say(attach(KEY))
        assert (await terminal.expect(Seat)).generation == 1
        big = Output(session=1, offset=0, data=bytes(limits.MAX_DATA_BYTES))
        await rank.send(big)
        assert await terminal.expect_data() == big


async def test_greeting_twice_is_a_breach(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.say(Greet(minor=0, release="0.1.0", name="again@h"))
    assert (await terminal.closed())[0] == 1002
