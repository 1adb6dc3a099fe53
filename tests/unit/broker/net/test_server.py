"""Slow readers, floods and the shutdown, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from websockets.frames import Frame

from dbg_broker.home.tokens import Role, Tokens
from dbg_broker.net.loop import BOUNDS
from dbg_broker.net.metrics import ClusterFigures, Gauges, Meters, metrics
from dbg_broker.relay.weights import RATES
from dbg_wire import limits
from dbg_wire.codec import Output
from dbg_wire.messages import (
    Mode,
    Repaint,
    Sender,
    Welcome,
)
from dbg_wire.records.ranks import RankState
from tests.unit.broker.peers import SECONDS, Broker, Peer, narrow, registration, running_broker

KEY = registration().identity.key
CHUNK = bytes(16 * 1024)


async def test_slow_terminal_has_a_bounded_backlog_and_does_not_delay_others(any_broker: Broker) -> None:
    rank = await any_broker.rank()
    healthy = await any_broker.seated(KEY)
    await rank.expect(Repaint)
    slow = await any_broker.seated(KEY, "slow@h", Mode.WATCH, max_queue=1, sock=narrow(any_broker))
    await rank.expect(Repaint)
    slow.websocket.transport.pause_reading()
    link = next(link for link in any_broker.parts.terminals.links.values() if link.name == "slow@h")
    most = 0
    for number in range(400):
        piece = Output(session=1, offset=number * len(CHUNK), data=CHUNK)
        await rank.send(piece)
        assert await healthy.expect_data() == piece
        most = max(most, link.connection.waiting_bytes)
    assert any_broker.parts.meters.dropped_frames > 0
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


async def test_ping_flood_without_reading_ends_the_connection(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    # At the real bound on a rank's bytes, it would take half a minute until too many answers wait.
    monkeypatch.setitem(RATES, Sender.AGENT, 1024 * limits.MIB)
    rank = await broker.rank()
    rank.websocket.transport.pause_reading()

    async def flood() -> None:
        while True:
            for _ in range(100):
                rank.websocket.protocol.send_ping(bytes(125))
            rank.websocket.send_data()
            await asyncio.sleep(0)

    flooding = asyncio.create_task(flood())
    await broker.left(lambda parts: not parts.ranks.links)
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


async def test_message_in_many_fragments_uses_memory_only_for_its_bytes(broker: Broker) -> None:
    terminal = await broker.terminal()
    sent, ended = asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncIterator[str]:
        for _ in range(500):
            yield ""
        sent.set()
        await ended.wait()

    sending = asyncio.create_task(terminal.websocket.send(pieces()))
    await sent.wait()
    # A pong is behind all pieces.
    await (await terminal.websocket.ping())
    assert sum(type(each) is Frame for each in gc.get_objects()) < 50
    ended.set()
    sending.cancel()


async def test_shutdown_closes_all_connections(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        rank, terminal = await broker.rank(), await broker.seated(KEY)
        _, writer = await asyncio.open_connection("127.0.0.1", broker.endpoint.port)
        stopping = asyncio.create_task(broker.server.stop())
        assert (await rank.closed())[0] == 1001
        assert (await terminal.closed())[0] == 1001
        await asyncio.wait_for(stopping, SECONDS)
        writer.close()


TOKENS = Tokens(rank="r" * 43, driver="d" * 43, watcher="w" * 43)
GAUGES = Gauges(ranks={RankState.STOPPED: 3}, terminals=2, sessions=1, drivers=1, watchers=1, uptime=1234567.125)


def samples_of(text: str) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_metrics_have_the_prometheus_format() -> None:
    meters = Meters(handshakes=5, bytes_from_ranks=10**12)
    meters.refusals.update([401, 401, 426])
    text = metrics(meters, GAUGES)
    samples = samples_of(text)
    types = dict(re.findall(r"^# TYPE (\w+) (gauge|counter|histogram)$", text, re.MULTILINE))
    assert {re.sub(r"\{.*", "", name) for name in samples} == {
        f"{name}{end}"
        for name, kind in types.items()
        for end in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))
    }
    assert samples['dbg_broker_ranks{state="stopped"}'] == "3"
    assert samples['dbg_broker_ranks{state="lost"}'] == "0"
    assert samples['dbg_broker_refusals_total{status="401"}'] == "2"
    assert samples["dbg_broker_rank_bytes_total"] == "1000000000000"
    assert samples["dbg_broker_uptime_seconds"] == "1234567.125"
    label = r'[a-z]+="[A-Za-z0-9_.+]+"'
    assert all(re.fullmatch(rf"[a-z_]+(\{{{label}(,{label})*\}})?", name) for name in samples)


def test_metrics_show_the_cluster_figures() -> None:
    figures = ClusterFigures(brokers=3, nats_silent=2.5)
    samples = samples_of(metrics(Meters(), replace(GAUGES, cluster=figures)))
    assert [samples[f"dbg_broker_{name}"] for name in ("cluster_brokers", "nats_silent_seconds")] == ["3", "2.5"]


def test_histogram_counts_values_up_to_each_bound() -> None:
    meters = Meters()
    for seconds in (0.0, BOUNDS[0], BOUNDS[1], 2 * BOUNDS[-1]):
        meters.key_waits.seconds.note(seconds)
    samples = samples_of(metrics(meters, GAUGES))
    counted = [
        int(count) for name, count in samples.items() if name.startswith("dbg_broker_key_wait_cpu_seconds_bucket")
    ]
    assert counted == [2, *[3] * (len(BOUNDS) - 1), 4]
    assert samples["dbg_broker_key_wait_cpu_seconds_count"] == "4"


async def test_debug_log_shows_connections_messages_and_states_without_tokens(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "dbg_broker")
    await broker.rank()
    await broker.seated(KEY)
    logged = "\n".join(record.getMessage() for record in caplog.records)
    for line in (
        "accepted from 127.0.0.1",
        "authenticated as a rank",
        "received register",
        "received attach",
        f"rank {KEY} is stopped",
    ):
        assert line in logged
    tokens = broker.tokens
    for token in (tokens.rank, *(tokens.of(role) for role in (Role.DRIVER, Role.WATCHER))):
        assert token not in caplog.text


async def test_connection_from_a_disallowed_address_is_closed_at_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker.server, "_allowed", SimpleNamespace(admits=lambda address, own: False))
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.endpoint.port)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    assert broker.parts.meters.turned_away == 1
    assert broker.parts.meters.failures == 0
