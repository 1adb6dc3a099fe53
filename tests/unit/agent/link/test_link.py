"""The link over real sockets and TLS, against a broker that is scripted message by message."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import queue
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from dbg_agent.link import outgoing
from dbg_agent.link.dialling import SERVED_PER_SECOND, Dialler
from dbg_agent.link.link import Link
from dbg_dial.find import Opening
from dbg_dial.tcp import OwnSocket
from dbg_wire.codec import Input, decode, encode, encode_data
from dbg_wire.errors import DbgError, HungUp, NoBroker, Refused, WrongCertificate, WrongToken, WrongVersion
from dbg_wire.finding.endpoint import Endpoint, Reach, fingerprint_of
from dbg_wire.limits import SILENT_SECONDS
from dbg_wire.messages import Goodbye, Message, Probe, Sender, Welcome
from tests.support.time_unit import seconds

SECONDS = 10.0
LOOK_SECONDS = seconds(SILENT_SECONDS + 5.0)
"""Until a loop that nobody can wake looks at its connection, and so at its own sockets."""
TOKEN = "t" * 43
WELCOME = Welcome(minor=0, release="0.1.0", host="login1", pid=1, uptime=0.0, address="h:0")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


class FakeBroker:
    """A broker in a thread: it accepts and welcomes, and the test sends and sees what follows."""

    def __init__(
        self,
        authority: trustme.CA,
        *,
        port: int = 0,
        status: int | None = None,
        body: str = "",
        busy: int = 0,
        hangs_up: int = 0,
    ) -> None:
        certificate = authority.issue_cert("127.0.0.1")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self._context)
        pem = certificate.cert_chain_pems[0].bytes().decode()
        self.fingerprint = fingerprint_of(ssl.PEM_cert_to_DER_cert(pem))
        self._status, self._body = status, body
        self._busy = busy
        """How many newcomers are still told when to come."""
        self._hangs_up = hangs_up
        """How many newcomers are still turned back."""
        self.requests: queue.Queue[Request] = queue.Queue()
        self.frames: queue.Queue[str | bytes] = queue.Queue()
        self.connections: queue.Queue[ServerConnection] = queue.Queue()
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._main(),))
        self._stopped = asyncio.Event()
        self._thread.start()
        assert self._ready.wait(SECONDS)

    async def _main(self) -> None:
        async with self._serve() as server:
            self.port = next(iter(server.sockets)).getsockname()[1]
            self._ready.set()
            await self._stopped.wait()

    @contextlib.asynccontextmanager
    async def _serve(self) -> AsyncIterator[Server]:
        async with serve(
            self._handle,
            "127.0.0.1",
            self.port,
            ssl=self._context,
            subprotocols=["dbg.v1"],  # type: ignore[list-item]
            process_request=self._process_request,
            close_timeout=0.1,
        ) as server:
            yield server

    def _process_request(self, connection: ServerConnection, request: Request) -> Response | None:
        self.requests.put(request)
        if self._hangs_up:
            self._hangs_up -= 1
            connection.transport.abort()
            return Response(503, "Busy", Headers(), b"")
        if self._busy:
            self._busy -= 1
            return Response(503, "Busy", Headers({"Content-Length": "0", "Retry-After": "1"}), b"")
        if self._status is None:
            return None
        return Response(self._status, "No", Headers({"Content-Length": str(len(self._body))}), self._body.encode())

    async def _handle(self, connection: ServerConnection) -> None:
        self.connections.put(connection)
        async for frame in connection:
            self.frames.put(frame)
            if isinstance(frame, str) and json.loads(frame)["type"] == "register":
                await connection.send(encode(WELCOME))

    def send(self, connection: ServerConnection, frame: str | bytes) -> None:
        asyncio.run_coroutine_threadsafe(connection.send(frame), self._loop).result(SECONDS)

    def cut(self, connection: ServerConnection) -> None:
        self._loop.call_soon_threadsafe(connection.transport.abort)

    def do(self, call: Callable[[], object]) -> None:
        """Have the broker's thread call something, and do nothing else meanwhile."""
        self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(SECONDS)
        self._loop.close()


class FakeDesk:
    """The rank behind the link, which keeps what the link tells it."""

    def __init__(self) -> None:
        self.reach: Reach | DbgError = NoBroker()
        self.messages: queue.Queue[Message] = queue.Queue()
        self.inputs: queue.Queue[Input] = queue.Queue()
        self.disconnects: queue.Queue[None] = queue.Queue()
        self.given_up: queue.Queue[DbgError] = queue.Queue()
        self.registrations = 0
        self.attended = False

    def find_broker(self, _opening: Opening) -> Reach:
        if isinstance(self.reach, DbgError):
            raise self.reach
        return self.reach

    def is_attended(self) -> bool:
        return self.attended

    def world_size(self) -> int:
        return 1

    def registration(self) -> str:
        self.registrations += 1
        return '{"type":"register"}'

    def report(self) -> str:
        return '{"type":"report"}'

    def redraw(self) -> None:
        raise AssertionError("nothing was dropped")

    def on_message(self, message: Message) -> None:
        self.messages.put(message)

    def on_input(self, frame: Input) -> None:
        self.inputs.put(frame)

    def on_disconnect(self) -> None:
        self.disconnects.put(None)

    def on_give_up(self, problem: DbgError) -> None:
        self.given_up.put(problem)


@pytest.fixture
def start_broker(authority: trustme.CA) -> Iterator[Callable[..., FakeBroker]]:
    started: list[FakeBroker] = []

    def start(**options: object) -> FakeBroker:
        started.append(FakeBroker(authority, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for broker in started:
        broker.stop()


@pytest.fixture
def desk() -> FakeDesk:
    return FakeDesk()


@pytest.fixture
def link(desk: FakeDesk) -> Iterator[Link]:
    link = Link(desk)
    yield link
    link.close()


def reach(broker: FakeBroker, fingerprint: str | None = None, secure: bool = True) -> Reach:
    pin = (fingerprint or broker.fingerprint) if secure else None
    endpoint = Endpoint(host="127.0.0.1", port=broker.port, secure=secure, fingerprint=pin)
    return Reach(endpoint=endpoint, token=TOKEN, sources={})


def test_the_next_broker_is_dialled_at_once_if_one_is_gone(
    monkeypatch: pytest.MonkeyPatch, start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    first, second = start_broker(), start_broker()
    desk.reach = replace(reach(first), others=(reach(second).endpoint,))
    link.start()
    assert link.wait_connected(SECONDS) is None
    failures: list[DbgError | None] = []

    def pause(_dialler: Dialler, error: DbgError | None) -> float:
        failures.append(error)
        return 0.0

    monkeypatch.setattr(Dialler, "pause", pause)
    first.stop()
    assert second.frames.get(timeout=SECONDS) == '{"type":"register"}'
    assert failures == [None]


def test_a_broker_that_refuses_does_not_keep_a_rank_from_the_next_one(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    refuses, takes = start_broker(status=503, body="the broker is full"), start_broker()
    desk.reach = replace(reach(refuses), others=(reach(takes).endpoint,))
    link.start()
    assert link.wait_connected(SECONDS) is None


def test_a_rank_comes_again_when_a_busy_broker_says_and_the_program_waits_for_that(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    busy, other = start_broker(busy=1), start_broker()
    desk.reach = replace(reach(busy), others=(reach(other).endpoint,))
    link.start()
    assert busy.requests.get(timeout=SECONDS)
    # Less than the broker has asked for.
    assert link.wait_connected(0.5) is None
    assert busy.frames.get(timeout=SECONDS) == '{"type":"register"}'
    assert other.requests.empty()


def test_the_program_of_a_large_job_waits_for_a_broker_that_has_turned_the_rank_back(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "world_size", lambda: 20 * SERVED_PER_SECOND)
    monkeypatch.setattr(Dialler, "first_pause", lambda _dialler: 0.0)
    monkeypatch.setattr(Dialler, "pause", lambda _dialler, _error: 1.0)
    busy, away = start_broker(hangs_up=1), start_broker()
    desk.reach = replace(reach(busy), others=(reach(away).endpoint,))
    away.stop()
    link.start()
    assert busy.requests.get(timeout=SECONDS)
    assert link.wait_connected(0.5) is None


def test_a_rank_that_is_turned_back_dials_another_broker_but_not_at_once(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[DbgError | None] = []

    def pause(_dialler: Dialler, error: DbgError | None) -> float:
        pauses.append(error)
        return 0.0

    monkeypatch.setattr(Dialler, "pause", pause)
    busy, other = start_broker(hangs_up=9), start_broker()
    desk.reach = replace(reach(busy), others=(reach(other).endpoint,))
    link.start()
    assert link.wait_connected(SECONDS) is None
    assert [type(error) for error in pauses] == [HungUp]
    assert busy.requests.qsize() == 1


def test_it_registers_with_its_token_and_talks_both_ways(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    broker = start_broker()
    desk.reach = reach(broker)
    link.start()
    assert link.wait_connected(SECONDS) is None
    assert broker.requests.get(timeout=SECONDS).headers["Authorization"] == f"Bearer {TOKEN}"
    assert broker.frames.get(timeout=SECONDS) == '{"type":"register"}'
    assert desk.messages.get(timeout=SECONDS) == WELCOME
    connection = broker.connections.get(timeout=SECONDS)
    broker.send(connection, '{"type":"of-a-later-minor"}')
    broker.send(connection, encode(Probe()))
    assert desk.messages.get(timeout=SECONDS) == Probe()
    keys = Input(1, 1, 1, 0, b"n")
    broker.send(connection, encode_data(keys))
    assert desk.inputs.get(timeout=SECONDS) == keys
    link.outgoing.put_report()
    link.outgoing.put_output(b"\x01output")
    assert broker.frames.get(timeout=SECONDS) == '{"type":"report"}'
    assert broker.frames.get(timeout=SECONDS) == b"\x01output"


def test_what_a_rank_says_is_sent_at_once_and_not_gathered(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    desk.reach = reach(start_broker())
    link.start()
    assert link.wait_connected(SECONDS) is None
    (descriptor,) = link.descriptors()
    connected = socket.socket(fileno=os.dup(descriptor))
    with connected:
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_it_comes_back_after_a_cut_and_restates_itself(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    broker = start_broker()
    desk.reach = reach(broker)
    link.start()
    # The broker has shaken hands before the link knows of it.
    assert link.wait_connected(SECONDS) is None
    broker.cut(broker.connections.get(timeout=SECONDS))
    desk.disconnects.get(timeout=SECONDS)
    assert broker.connections.get(timeout=SECONDS) is not None
    assert link.wait_connected(SECONDS) is None
    assert desk.registrations == 2


def test_it_starts_afresh_and_restates_itself_where_messages_would_get_lost(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start_broker()
    desk.reach = reach(broker)
    link.start()
    assert link.wait_connected(SECONDS) is None
    broker.connections.get(timeout=SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(outgoing, "MAX_MESSAGES", 0)
        link.outgoing.put_message('{"type":"notice","text":"one too many"}')
    desk.disconnects.get(timeout=SECONDS)
    assert broker.connections.get(timeout=SECONDS) is not None
    assert link.wait_connected(SECONDS) is None
    assert desk.registrations == 2


def test_timers_outlive_the_loop_that_runs_them_and_a_loop_that_dies_has_a_successor(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start_broker()
    desk.reach = reach(broker)
    link.start()
    assert link.wait_connected(SECONDS) is None
    first = broker.connections.get(timeout=SECONDS)
    called = threading.Event()
    link.call_later(seconds(0.5), called.set)
    with monkeypatch.context() as patch:
        patch.setattr(OwnSocket, "is_open", lambda _socket: False)
        desk.disconnects.get(timeout=LOOK_SECONDS)
    assert broker.connections.get(timeout=SECONDS) is not None
    assert link.wait_connected(SECONDS) is None
    assert called.wait(SECONDS)
    assert desk.given_up.empty()
    # Its socket was given up unclosed, as if the number were the program's.
    broker.cut(first)


def test_a_link_that_can_make_no_loop_any_more_says_so(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start_broker()
    desk.reach = reach(broker)
    link.start()
    assert link.wait_connected(SECONDS) is None

    first = broker.connections.get(timeout=SECONDS)

    def no_room() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socketpair", no_room)
    monkeypatch.setattr(OwnSocket, "is_open", lambda _socket: False)
    assert "Too many open files" in str(desk.given_up.get(timeout=SECONDS + LOOK_SECONDS))
    assert not link.keeps_trying
    broker.cut(first)


def test_a_broken_frame_ends_the_connection_and_not_the_link(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    broker = start_broker()
    desk.reach = reach(broker)
    link.start()
    broker.send(broker.connections.get(timeout=SECONDS), "not json")
    assert broker.connections.get(timeout=SECONDS) is not None


def test_a_broker_that_has_had_no_time_to_answer_is_told_as_that(desk: FakeDesk, link: Link) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint(host="127.0.0.1", port=silent.getsockname()[1], secure=True, fingerprint="ab" * 32)
        desk.reach = Reach(endpoint=endpoint, token=TOKEN, sources={})
        link.start()
        assert "(no answer yet)" in str(link.wait_connected(0.0))


def test_it_finds_a_broker_that_starts_later(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    link.start()
    problem = link.wait_connected(0.0)
    assert problem is not None
    broker = start_broker()
    desk.reach = reach(broker)
    assert link.wait_connected(None) is None


def test_the_wait_counts_from_the_start_so_that_later_calls_pay_nothing(desk: FakeDesk, link: Link) -> None:
    link.start()
    assert isinstance(link.wait_connected(0.2), NoBroker)
    assert isinstance(link.wait_connected(0.2), NoBroker)


def test_a_wrong_certificate_gets_no_request(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    broker = start_broker()
    desk.reach = reach(broker, fingerprint="sha256:" + "00" * 32)
    link.start()
    assert isinstance(link.wait_connected(SECONDS), WrongCertificate)
    assert broker.requests.empty()


@pytest.mark.parametrize(
    ("status", "expected"), [(401, WrongToken), (403, WrongToken), (426, WrongVersion), (404, Refused)]
)
def test_a_refusal_is_told_at_once_with_the_brokers_words(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link, status: int, expected: type[DbgError]
) -> None:
    desk.reach = reach(start_broker(status=status, body="because of a test\x1b"))
    link.start()
    problem = link.wait_connected(SECONDS)
    assert type(problem) is expected
    assert "because of a test\\x1b" in str(problem)
    assert TOKEN not in str(problem)


def test_closing_sends_the_goodbye_that_waits(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    broker = start_broker()
    desk.reach = reach(broker)
    link.start()
    assert link.wait_connected(SECONDS) is None
    broker.frames.get(timeout=SECONDS)
    link.outgoing.put_message(encode(Goodbye(exit=3)))
    link.close()
    said = broker.frames.get(timeout=SECONDS)
    assert decode(said, Sender.AGENT) == Goodbye(exit=3)


def test_closing_does_not_wait_for_a_broker_that_never_answered(desk: FakeDesk, tmp_path: Path) -> None:
    link = Link(desk)
    link.start()
    link.wait_connected(0.0)
    link.close()
    assert not any(thread.name == "dbg-agent" for thread in threading.enumerate())
