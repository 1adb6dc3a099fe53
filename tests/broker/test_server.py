"""Strangers, storms, slow readers and the end, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from asyncio import sslproto
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from dbg_broker import hub as hub_module
from dbg_broker import sweeper
from dbg_broker.auth import Role
from dbg_broker.connection import Connection
from dbg_broker.server import TLS_BUFFER_BYTES, CantListen, PortTaken, bound_tls_buffers, listen
from dbg_wire import limits
from dbg_wire.codec import Input, Output
from dbg_wire.messages import (
    Audience,
    Discarded,
    Greet,
    Mode,
    Probe,
    Refusal,
    RefusalCode,
    Repaint,
    Seat,
    Sender,
    Subscribe,
    Take,
    Welcome,
)
from tests.broker.peers import SECONDS, Broker, Peer, attach, registration, running_broker

KEY = registration().key
CHUNK = bytes(16 * 1024)


# ------------------------------------------------------------------------------------------------------ who gets in


@pytest.mark.parametrize(
    ("path", "whose", "status"),
    [
        ("/agent", None, 401),
        ("/client", None, 401),
        ("/agent", "x" * 43, 401),
        ("/agent", Role.DRIVER, 403),
        ("/agent", Role.WATCHER, 403),
        ("/client", Role.RANK, 403),
        ("/admin", Role.DRIVER, 404),
        ("/", Role.DRIVER, 404),
    ],
)
async def test_only_the_right_token_opens_a_path(
    any_broker: Broker, path: str, whose: Role | str | None, status: int
) -> None:
    token = any_broker.tokens.of(whose) if isinstance(whose, Role) else whose
    with pytest.raises(InvalidStatus) as refused:
        await any_broker.dial(path, token)
    assert refused.value.response.status_code == status
    assert refused.value.response.body
    assert any_broker.hub.meters.refusals[status] == 1


async def test_web_pages_are_refused_whatever_they_know(broker: Broker) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await broker.dial("/client", broker.tokens.driver, origin="http://127.0.0.1")
    assert refused.value.response.status_code == 403


async def test_another_major_is_refused_naming_both(broker: Broker) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await broker.dial("/client", broker.tokens.driver, subprotocols=[Subprotocol("dbg.v7")])
    body = (refused.value.response.body or b"").decode()
    assert refused.value.response.status_code == 426
    assert "version 1" in body
    assert "version 7" in body


async def test_a_full_broker_says_so(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CLIENTS", 1)
    await broker.terminal()
    with pytest.raises(InvalidStatus) as refused:
        await broker.dial("/client", broker.tokens.driver)
    assert refused.value.response.status_code == 503
    assert await broker.rank()


async def http(broker: Broker, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.endpoint.port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), SECONDS)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    ("request_bytes", "begins", "ends"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"\r\n\r\nok\n"),
        (b"HEAD /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"\r\n\r\n"),
        (b"GET /healthz?x=1 HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"ok\n"),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 9\r\n\r\n", b"HTTP/1.1 405 ", b"\n"),
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 Not Found\r\n", b"\n"),
        (b"GET /client HTTP/1.1\r\n\r\n", b"HTTP/1.1 401 Unauthorized\r\n", b"\n"),
    ],
)
async def test_plain_requests_are_answered(broker: Broker, request_bytes: bytes, begins: bytes, ends: bytes) -> None:
    answer = await http(broker, request_bytes)
    assert answer.startswith(begins)
    assert answer.endswith(ends)


async def test_a_token_without_a_websocket_gets_the_librarys_answer(broker: Broker) -> None:
    request = f"GET /client HTTP/1.1\r\nAuthorization: Bearer {broker.tokens.driver}\r\n"
    answer = await http(broker, f"{request}Sec-WebSocket-Protocol: dbg.v1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 426 ")


async def test_metrics_count_and_tell_no_secret(broker: Broker) -> None:
    await broker.rank()
    await broker.seated(KEY)
    page = (await http(broker, b"GET /metrics HTTP/1.1\r\n\r\n")).decode()
    assert 'dbg_broker_ranks{state="stopped"} 1\n' in page
    assert "dbg_broker_drivers 1\n" in page
    assert "dbg_broker_handshakes_total 2\n" in page
    assert not any(token in page for token in broker.tokens.by_name().values())


# ---------------------------------------------------------------------------------------------------- hostile peers


async def test_first_message_must_be_the_first(broker: Broker) -> None:
    rank = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    await rank.send(Output(session=1, offset=0, data=b"x"))
    assert (await rank.expect(Refusal)).code == RefusalCode.BAD_MESSAGE
    assert (await rank.closed())[0] == 1002
    terminal = Peer(await broker.dial("/client", broker.tokens.driver), Sender.CLIENT)
    await terminal.say(Subscribe())
    assert (await terminal.expect(Refusal)).code == RefusalCode.BAD_MESSAGE
    assert (await terminal.closed())[0] == 1002


async def test_unknown_message_is_refused_by_name_and_the_connection_goes_on(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.websocket.send('{"type":"dance\\u001b[31m","how":"well"}')
    refusal = await terminal.expect(Refusal)
    assert refusal.code == RefusalCode.UNKNOWN_TYPE
    assert "dance" in refusal.text
    assert "\x1b" not in refusal.text
    await terminal.say(Take())
    assert (await terminal.expect(Refusal)).code == RefusalCode.NOT_ATTACHED


@pytest.mark.parametrize(
    "junk",
    [
        "not json",
        "[]",
        '{"type":"attach","key":7}',
        '{"type":"welcome"}',
        '{"type":"attach","key":"k","mode":"drive","rows":1,"columns":1,"colors":1,"engine":"\\u001b"}',
        b"",
        b"\x01\x00",
        b"\x02" + bytes(19),
        b"\x07" + bytes(40),
        b"\x02" + bytes(20 + limits.MAX_DATA_BYTES + 1),
    ],
)
async def test_junk_ends_its_connection_alone(broker: Broker, junk: str | bytes) -> None:
    bystander = await broker.terminal("bystander@h")
    terminal = await broker.terminal()
    await terminal.websocket.send(junk)
    assert (await terminal.expect(Refusal)).code == RefusalCode.BAD_MESSAGE
    assert (await terminal.closed())[0] == 1002
    await bystander.say(Take())
    assert await bystander.expect(Refusal)


@pytest.mark.parametrize(
    "junk", [b"", b"\x02" + bytes(40), b"\x01" + bytes(12 + limits.MAX_DATA_BYTES + 1), '{"type":"goodbye"}']
)
async def test_junk_of_a_rank_ends_its_connection(broker: Broker, junk: str | bytes) -> None:
    rank = await broker.rank()
    await rank.websocket.send(junk)
    assert (await rank.closed())[0] == 1002


@pytest.mark.parametrize("field", ["job", "run", "host"])
async def test_names_with_control_characters_are_refused_escaped(broker: Broker, field: str) -> None:
    rank = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    await rank.say(registration(**{field: "gpu\x1b[31m"}))
    refusal = await rank.expect(Refusal)
    assert refusal.code == RefusalCode.BAD_MESSAGE
    assert f"register.{field}" in refusal.text
    assert "\x1b" not in refusal.text
    assert broker.hub.registry.keys() == ()


async def test_too_long_a_message_is_not_even_read(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.websocket.send("x" * (limits.MAX_FRAME_BYTES + 1))
    assert (await terminal.closed())[0] == 1009


async def test_an_error_of_the_broker_costs_one_connection(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bystander = await broker.terminal("bystander@h")
    terminal = await broker.terminal()

    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(broker.hub.registry, "keys", broken)
    await terminal.say(Subscribe())
    assert (await terminal.closed())[0] == 1006
    assert "a bug" in caplog.text
    await bystander.say(Take())
    assert await bystander.expect(Refusal)


async def test_thousand_strangers_leave_the_broker_as_it_was(
    any_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    noise = [
        b"",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-scan\r\n",
        b"GET / HTTP/1.1\r\n",
        b"GET /client HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
        b"\x00" * 100,
        b"GET " + b"/" * 20000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nSec-WebSocket-Key: \xff\xfe\r\nNo colon\r\n\r\n",
    ]

    async def stranger(number: int) -> None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", any_broker.endpoint.port)
            writer.write(noise[number % len(noise)])
            await writer.drain()
            writer.transport.abort()

    began = time.monotonic()
    for first in range(0, 1000, 100):
        await asyncio.gather(*(stranger(first + number) for number in range(100)))
    await any_broker.terminal()
    assert time.monotonic() - began < 20
    await until(lambda: any_broker.hub.connected == 1)
    assert any_broker.hub.meters.failures > 0
    assert not any(record.exc_info or record.levelno > logging.INFO for record in caplog.records)
    assert not any("\n" in record.getMessage() for record in caplog.records)


async def until(so: object) -> None:
    """Let the broker work until something of its own is so."""

    async def wait() -> None:
        while not so():  # type: ignore[operator]
            await asyncio.sleep(0)

    await asyncio.wait_for(wait(), SECONDS)


async def test_half_a_handshake_is_given_up(any_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HANDSHAKE_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", any_broker.endpoint.port)
    writer.write(b"GET /agent HTTP/1.1\r\n")
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), SECONDS) == b""
    writer.close()
    silent = await any_broker.dial("/client", any_broker.tokens.driver)
    await asyncio.wait_for(silent.wait_closed(), SECONDS)
    assert any_broker.hub.connected == 0


async def test_waiting_strangers_are_bounded_and_the_oldest_goes(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "MAX_PENDING", 2)
    first, *others = [await asyncio.open_connection("127.0.0.1", broker.endpoint.port) for _ in range(3)]
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(first[0].read(), SECONDS) == b""
    assert await broker.terminal()
    for _, writer in (first, *others):
        writer.transport.abort()


async def test_flood_of_input_is_slowed_down_and_kept_whole(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_INPUT_PER_SECOND", 512 * limits.KIB)
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    pieces = 96
    sent = [Input(session=1, stop=1, generation=1, offset=n * len(CHUNK), data=CHUNK) for n in range(pieces)]
    began = time.monotonic()

    async def flood() -> None:
        for piece in sent:
            await driver.send(piece)

    flooding = asyncio.create_task(flood())
    arrived = [await rank.expect_data() for _ in sent]
    await flooding
    assert arrived == sent
    # A second's worth is free, and what one read of the socket brings is passed on before and after a pause.
    paced = pieces * len(CHUNK) - limits.MAX_INPUT_PER_SECOND - 2 * 256 * limits.KIB
    assert time.monotonic() - began >= paced / limits.MAX_INPUT_PER_SECOND


async def test_rank_that_does_not_read_has_input_discarded_by_name(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = Peer(await broker.dial("/agent", broker.tokens.rank, max_queue=1), Sender.AGENT)
    await rank.say(registration())
    driver = await broker.seated(KEY)
    rank.websocket.transport.pause_reading()
    monkeypatch.setattr(broker.hub, "_charge", lambda *_: None)
    offset = 0
    discarded = asyncio.create_task(driver.expect(Discarded))
    while not discarded.done():
        await driver.send(Input(session=1, stop=1, generation=1, offset=offset, data=CHUNK))
        offset += len(CHUNK)
        await asyncio.sleep(0)
    assert "does not read" in discarded.result().reason
    assert waiting(broker, KEY) <= limits.MAX_AGENT_BACKLOG
    await driver.cut()
    rank.websocket.transport.resume_reading()
    await rank.expect(Audience, lambda audience: audience.viewers == 0)


def waiting(broker: Broker, key: str) -> int:
    connection = broker.hub.ranks[key].connection
    assert isinstance(connection, Connection)
    return connection._outbox.waiting + connection._held()


# ----------------------------------------------------------------------------------------------------- slow readers


async def test_slow_terminal_costs_a_mebibyte_and_nobody_else_anything(any_broker: Broker) -> None:
    rank = await any_broker.rank()
    healthy = await any_broker.seated(KEY)
    slow = await any_broker.seated(KEY, "slow@h", Mode.WATCH, max_queue=1)
    slow.websocket.transport.pause_reading()
    link = next(link for link in any_broker.hub.terminals.values() if link.name == "slow@h")
    most = 0
    for number in range(400):
        piece = Output(session=1, offset=number * len(CHUNK), data=CHUNK)
        await rank.send(piece)
        assert await healthy.expect_data() == piece
        most = max(most, link.connection._outbox.waiting + link.connection._held())
    assert any_broker.hub.meters.dropped_frames > 0
    assert most <= limits.MAX_VIEWER_BACKLOG
    while not isinstance(await rank.next(), Repaint):
        pass
    slow.websocket.transport.resume_reading()
    screen = Output(session=1, offset=400 * len(CHUNK), data=b"the whole screen")

    async def read_until_screen() -> int:
        received = 0
        while await slow.expect_data() != screen:
            received += 1
        return received

    reading = asyncio.create_task(read_until_screen())
    await rank.expect(Repaint)
    await rank.send(screen)
    assert await reading < 100


async def test_terminal_that_takes_nothing_is_disconnected(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "STALL_SECONDS", 0.1)
    rank = await broker.rank()
    slow = await broker.seated(KEY, max_queue=1)
    slow.websocket.transport.pause_reading()
    left = asyncio.create_task(rank.expect(Audience, lambda audience: audience.viewers == 0))
    for number in range(64):
        await rank.send(Output(session=1, offset=number * len(CHUNK), data=CHUNK))
    await left
    assert broker.hub.meters.disconnected == 1


async def test_ping_flood_without_reading_ends_the_connection(broker: Broker) -> None:
    rank = await broker.rank()
    rank.websocket.transport.pause_reading()

    async def flood() -> None:
        while True:
            for _ in range(100):
                rank.websocket.protocol.send_ping(bytes(125))
            rank.websocket.send_data()
            await asyncio.sleep(0)

    flooding = asyncio.create_task(flood())
    await until(lambda: not broker.hub.ranks)
    flooding.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await flooding


async def test_fragmented_messages_are_put_together(broker: Broker) -> None:
    terminal = Peer(await broker.dial("/client", broker.tokens.driver), Sender.CLIENT)
    text = '{"type":"greet","minor":0,"release":"0.1.0","name":"mé@h"}'

    async def pieces() -> object:
        for character in text:
            yield character  # type: ignore[misc]

    await terminal.websocket.send(pieces())  # type: ignore[arg-type]
    assert await terminal.expect(Welcome)


# --------------------------------------------------------------------------------------------------------- the rest


async def test_shutdown_says_goodbye_to_everyone(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        rank, terminal = await broker.rank(), await broker.seated(KEY)
        _, writer = await asyncio.open_connection("127.0.0.1", broker.endpoint.port)
        stopping = asyncio.create_task(broker.server.stop())
        assert (await rank.closed())[0] == 1001
        assert (await terminal.closed())[0] == 1001
        await asyncio.wait_for(stopping, SECONDS)
        writer.close()


async def test_two_thousand_and_more_may_knock_at_once(broker: Broker) -> None:
    backlog = broker.server._listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    assert backlog == 1
    ranks = await asyncio.gather(*(broker.rank(number) for number in range(64)))
    assert len(ranks) == broker.hub.registry.live() == 64


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


def test_tls_buffers_of_asyncio_are_bounded() -> None:
    bound_tls_buffers()
    protocol = sslproto.SSLProtocol
    if hasattr(protocol, "max_size"):
        assert protocol.max_size == TLS_BUFFER_BYTES


def test_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is taken"):
            listen("127.0.0.1", port)


def test_address_of_another_host_is_named() -> None:
    with pytest.raises(CantListen, match=r"can't listen on 192\.0\.2\.1"):
        listen("192.0.2.1", 0)


async def test_greeting_twice_is_a_breach(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.say(Greet(minor=0, release="0.1.0", name="again@h"))
    assert (await terminal.closed())[0] == 1002
