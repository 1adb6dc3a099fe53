"""Handshakes that the broker refuses, and the end of peers that break the protocol, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from websockets.exceptions import InvalidStatus

from dbg_broker.admission import FIGURES_SECONDS
from dbg_broker.home.tokens import Role
from dbg_broker.net import handshake_slots
from dbg_broker.net.peer import Peer as Connection
from dbg_broker.net.websocket import CloseCode
from dbg_broker.relay.weights import RATES
from dbg_wire import limits
from dbg_wire.codec import Input, Output
from dbg_wire.messages import (
    Discarded,
    Mode,
    Refusal,
    RefusalCode,
    Reply,
    Seat,
    Sender,
    Subscribe,
    Take,
    Viewers,
)
from dbg_wire.records.record import plain
from tests.unit.broker.peers import SECONDS, Broker, Peer, attach, registration

KEY = registration().identity.key
CHUNK = bytes(16 * 1024)


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
    assert any_broker.parts.meters.refusals[status] == 1


async def test_web_pages_are_refused_even_with_a_token(broker: Broker) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await broker.dial("/client", broker.tokens.driver, origin="http://127.0.0.1")
    assert refused.value.response.status_code == 403


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
        (b"GET /healthz?x=1 HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"ok\n"),
        (b"GET /nothing HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 Not Found\r\n", b"\n"),
        (b"GET /client HTTP/1.1\r\n\r\n", b"HTTP/1.1 401 Unauthorized\r\n", b"\n"),
    ],
)
async def test_plain_requests_are_answered(broker: Broker, request_bytes: bytes, begins: bytes, ends: bytes) -> None:
    answer = await http(broker, request_bytes)
    assert answer.startswith(begins)
    assert answer.endswith(ends)


async def test_metrics_count_connections_and_show_no_token(broker: Broker) -> None:
    await broker.rank()
    await broker.seated(KEY)
    page = (await http(broker, b"GET /metrics HTTP/1.1\r\n\r\n")).decode()
    assert 'dbg_broker_ranks{state="stopped"} 1\n' in page
    assert "dbg_broker_drivers 1\n" in page
    assert "dbg_broker_handshakes_total 2\n" in page
    assert not any(token in page for token in broker.tokens.by_name().values())


async def figures(broker: Broker, token: str | None = None) -> str:
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    return (await http(broker, f"GET /metrics HTTP/1.1\r\n{authorization}\r\n".encode())).decode()


async def test_public_metrics_do_not_reveal_when_a_key_is_typed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    before = await figures(broker)
    assert "dbg_broker_input_bytes_total 0\n" in await figures(broker, broker.tokens.watcher)
    await driver.send(Input(session=1, stop=1, generation=1, offset=0, data=b"x"))
    await rank.expect_data()
    assert "dbg_broker_input_bytes_total 1\n" in await figures(broker, broker.tokens.watcher)
    assert await figures(broker) == before
    now = broker.parts.timers.clock
    monkeypatch.setattr(broker.parts.timers, "clock", lambda: now() + FIGURES_SECONDS)
    assert "dbg_broker_input_bytes_total 1\n" in await figures(broker)


async def test_connection_must_begin_with_register_or_greet(broker: Broker) -> None:
    rank = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    await rank.send(Output(session=1, offset=0, data=b"x"))
    assert (await rank.expect(Refusal)).code == RefusalCode.BAD_MESSAGE
    assert (await rank.closed())[0] == 1002
    terminal = Peer(await broker.dial("/client", broker.tokens.driver), Sender.CLIENT)
    await terminal.send(Subscribe())
    assert (await terminal.expect(Refusal)).code == RefusalCode.BAD_MESSAGE
    assert (await terminal.closed())[0] == 1002


async def test_unknown_message_is_refused_by_name_and_the_connection_stays_open(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.websocket.send('{"type":"dance\\u001b[31m","how":"well"}')
    refusal = await terminal.expect(Refusal)
    assert refusal.code == RefusalCode.UNKNOWN_TYPE
    assert "dance" in refusal.text
    assert "\x1b" not in refusal.text
    await terminal.send(Take())
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
async def test_invalid_message_ends_only_its_own_connection(broker: Broker, junk: str | bytes) -> None:
    bystander = await broker.terminal("bystander@h")
    terminal = await broker.terminal()
    await terminal.websocket.send(junk)
    assert (await terminal.expect(Refusal)).code == RefusalCode.BAD_MESSAGE
    assert (await terminal.closed())[0] == 1002
    await bystander.send(Take())
    assert await bystander.expect(Refusal)


@pytest.mark.parametrize("field", ["job", "run", "host"])
async def test_names_with_control_characters_are_refused_escaped(broker: Broker, field: str) -> None:
    rank = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    register = plain(registration(0))
    register["identity"][field] = "gpu\x1b[31m"
    await rank.websocket.send(json.dumps(register))
    refusal = await rank.expect(Refusal)
    assert refusal.code == RefusalCode.BAD_MESSAGE
    assert f"$.identity.{field}" in refusal.text
    assert "\x1b" not in refusal.text
    assert broker.parts.ranks.registry.keys() == ()


async def test_too_long_message_is_not_read(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.websocket.send("x" * (limits.MAX_FRAME_BYTES + 1))
    assert (await terminal.closed())[0] == 1009


async def test_error_in_the_broker_ends_only_one_connection(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bystander = await broker.terminal("bystander@h")
    terminal = await broker.terminal()

    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(broker.parts.ranks.registry, "keys", broken)
    await terminal.send(Subscribe())
    assert (await terminal.closed())[0] == 1006
    assert "a bug" in caplog.text
    await bystander.send(Take())
    assert await bystander.expect(Refusal)


async def test_incomplete_handshake_is_closed(any_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake_slots, "HANDSHAKE_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", any_broker.endpoint.port)
    writer.write(b"GET /agent HTTP/1.1\r\n")
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), SECONDS) == b""
    writer.close()
    assert len(any_broker.server) == 0


async def test_silent_connections_make_room_for_others(any_broker: Broker) -> None:
    port = any_broker.endpoint.port
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * handshake_slots.MAX_SLOTS)]
    assert await any_broker.terminal()
    assert any_broker.parts.meters.failures > 0
    for _, writer in silent:
        writer.transport.abort()


async def test_input_to_a_rank_that_does_not_read_is_reported_as_discarded(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = Peer(await broker.dial("/agent", broker.tokens.rank, max_queue=1), Sender.AGENT)
    await rank.send(registration())
    # At the real bound on input, the rank's queue would take long to fill.
    monkeypatch.setitem(RATES, Sender.CLIENT, 1024 * limits.MIB)
    driver = await broker.seated(KEY)
    rank.websocket.transport.pause_reading()
    offset = 0
    discarded = asyncio.create_task(driver.expect(Discarded))
    while not discarded.done():
        await driver.send(Input(session=1, stop=1, generation=1, offset=offset, data=CHUNK))
        offset += len(CHUNK)
        await asyncio.sleep(0)
    assert waiting(broker, KEY) <= limits.MAX_AGENT_BACKLOG
    refused = asyncio.create_task(driver.expect(Refusal))
    while not refused.done():
        await driver.send(Reply(prompt=1, generation=1, text="x" * 16 * limits.KIB))
        await asyncio.sleep(0)
    assert refused.result().code == RefusalCode.FULL
    await driver.cut()
    rank.websocket.transport.resume_reading()
    await rank.expect(Viewers, lambda viewers_message: viewers_message.viewers == 0)


async def test_keys_to_a_connection_that_is_being_closed_are_not_discarded(broker: Broker) -> None:
    rank = await broker.rank()
    connection = broker.parts.ranks.links[KEY].connection
    connection.close(CloseCode.REVOKED, "its token was revoked")
    assert connection.send_data(CHUNK, 0)
    assert await rank.closed()


def waiting(broker: Broker, key: str) -> int:
    connection = broker.parts.ranks.links[key].connection
    assert isinstance(connection, Connection)
    return connection.waiting_bytes


async def gives_way(watcher: Peer, why: str) -> None:
    """Check that the broker sends this terminal the reason, and closes its connection."""
    refusal = await watcher.expect(Refusal)
    assert refusal.code == RefusalCode.FULL
    assert why in refusal.text
    code, reason = await watcher.closed()
    assert code == CloseCode.GIVES_WAY
    assert reason is not None
    assert why in reason


async def test_rank_full_of_watchers_admits_a_driver(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_VIEWERS_PER_RANK", 4)
    rank = await broker.rank()
    watchers = [await broker.seated(KEY, f"{number}@h", Mode.WATCH) for number in range(3)]
    another = await broker.terminal("another@h", Role.WATCHER)
    await another.send(attach(KEY, Mode.WATCH))
    assert (await another.expect(Refusal)).code == RefusalCode.FULL
    driver = await broker.seated(KEY)
    assert (await rank.expect(Viewers, lambda viewers_message: viewers_message.driven)).viewers == 4
    second = await broker.terminal("second@h")
    await second.send(attach(KEY, Mode.DRIVE))
    assert (await second.expect(Refusal)).code == RefusalCode.FULL
    await second.send(attach(KEY, Mode.TAKE))
    assert (await second.expect(Seat)).generation == 2
    assert (await driver.expect(Seat, lambda seat: seat.generation is None)).driver == "second@h"
    await gives_way(watchers[-1], "gpu013:0 ")
    assert broker.parts.relay.seats.watchers(KEY) == 3


async def test_broker_full_of_watchers_admits_drivers(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CLIENTS", 8)
    watchers = [await broker.terminal(f"{number}@h", Role.WATCHER) for number in range(7)]
    with pytest.raises(InvalidStatus) as refused:
        await broker.dial("/client", broker.tokens.watcher)
    assert refused.value.response.status_code == 503
    assert b"7 watchers" in (refused.value.response.body or b"")
    drivers = [await broker.terminal(f"driver{number}@h") for number in range(8)]
    for watcher in reversed(watchers):
        await gives_way(watcher, "the broker ")
    assert len(broker.parts.terminals.links) == len(drivers)
    with pytest.raises(InvalidStatus) as refused:
        await broker.dial("/client", broker.tokens.watcher)
    assert refused.value.response.status_code == 503
    assert b"8 terminals" in (refused.value.response.body or b"")
