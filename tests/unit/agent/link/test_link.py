"""The link over real sockets and TLS, against a broker that is scripted message by message."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import math
import os
import queue
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import trustme
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from dbg_agent.link import dialling, fork_safety, outgoing
from dbg_agent.link import link as link_module
from dbg_agent.link.dialling import Dialler
from dbg_agent.link.link import Link, find_ranks_broker
from dbg_dial.endpoint import Endpoint, Route, fingerprint_of
from dbg_dial.find import Opening
from dbg_dial.tcp import OwnSocket
from dbg_wire.codec import Input, decode, encode, encode_data
from dbg_wire.errors import (
    BadEndpoint,
    BadInput,
    BadSecretFile,
    BrokerUnreachable,
    ConnectionClosedEarly,
    DbgError,
    NoBroker,
    NotABroker,
    WrongCertificate,
    WrongToken,
    WrongVersion,
)
from dbg_wire.limits import SILENT_SECONDS
from dbg_wire.messages import Goodbye, Message, Probe, Sender, Welcome
from tests.conftest import Approved
from tests.support import fake_brokers as fake
from tests.support.reach import PIN
from tests.support.time_unit import seconds

SECONDS = 10.0
TOKEN = "t" * 43
WELCOME = Welcome(minor=0, release="0.1.0", host="login1", pid=1, uptime=0.0, address="h:0")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


class FakeBroker:
    """A broker in a thread: it accepts and welcomes, and the test sends and sees what follows."""

    def __init__(self, authority: trustme.CA, *, status: int | None = None, hangs_up: int = 0) -> None:
        certificate = authority.issue_cert("127.0.0.1")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self._context)
        pem = certificate.cert_chain_pems[0].bytes().decode()
        self.fingerprint = fingerprint_of(ssl.PEM_cert_to_DER_cert(pem))
        self._status, self._hangs_up = status, hangs_up
        """The answer to all newcomers, and how many are still turned back."""
        self.requests: queue.Queue[Request] = queue.Queue()
        self.frames: queue.Queue[str | bytes] = queue.Queue()
        self.connections: queue.Queue[ServerConnection] = queue.Queue()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._main(),))
        self._stopped = asyncio.Event()
        self._thread.start()
        assert self._ready.wait(SECONDS)

    async def _main(self) -> None:
        async with serve(
            self._handle,
            "127.0.0.1",
            0,
            ssl=self._context,
            subprotocols=["dbg.v1"],  # type: ignore[list-item]
            process_request=self._process_request,
            close_timeout=0.1,
        ) as server:
            self.port = next(iter(server.sockets)).getsockname()[1]
            self._ready.set()
            await self._stopped.wait()

    def _process_request(self, connection: ServerConnection, request: Request) -> Response | None:
        self.requests.put(request)
        if self._hangs_up:
            self._hangs_up -= 1
            connection.transport.abort()
            return Response(503, "Busy", Headers(), b"")
        if self._status is None:
            return None
        return Response(self._status, "No", Headers({"Content-Length": "0"}), b"")

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

    def suspend(self, until: threading.Event) -> None:
        """Have the broker's thread do nothing, while its kernel acknowledges all that comes."""
        self._loop.call_soon_threadsafe(until.wait)

    def stop(self) -> None:
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(SECONDS)
        self._loop.close()


class FakeDesk:
    """The rank behind the link, which keeps what the link reports to it."""

    def __init__(self) -> None:
        self.reach: Route | DbgError = NoBroker()
        self.messages: queue.Queue[Message] = queue.Queue()
        self.inputs: queue.Queue[Input] = queue.Queue()
        self.disconnects: queue.Queue[None] = queue.Queue()
        self.given_up: queue.Queue[DbgError] = queue.Queue()
        self.registrations = self.finds = 0
        self.attended = False
        self.home_answers = threading.Event()
        self.home_answers.set()

    def find_broker(self, opening: Opening) -> Route:
        self.finds += 1
        self.home_answers.wait()
        if isinstance(self.reach, DbgError):
            raise self.reach
        return self.reach

    def is_attended(self) -> bool:
        return self.attended

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


def reach(broker: FakeBroker, *others: FakeBroker) -> Route:
    first, *rest = (
        Endpoint(host="127.0.0.1", port=each.port, fingerprint=each.fingerprint) for each in (broker, *others)
    )
    return Route(endpoint=first, token=TOKEN, sources={}, others=tuple(rest))


@pytest.fixture
def broker(start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link) -> FakeBroker:
    """Return a broker that the rank is connected to."""
    broker = start_broker()
    desk.reach = reach(broker)
    link.start()
    # The broker has shaken hands before the link knows of it.
    assert link.wait_connected(SECONDS) is None
    return broker


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[DbgError | None]:
    """Have the link dial again without a pause; collect what was wrong before each."""
    failures: list[DbgError | None] = []

    def pause(_dialler: Dialler, error: DbgError | None) -> float:
        failures.append(error)
        return 0.0

    monkeypatch.setattr(Dialler, "pause", pause)
    return failures


def test_the_next_broker_is_dialled_at_once_after_one_has_ended(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link, pauses: list[DbgError | None]
) -> None:
    first, second = start_broker(), start_broker()
    desk.reach = reach(first, second)
    link.start()
    assert link.wait_connected(SECONDS) is None
    first.stop()
    assert second.frames.get(timeout=SECONDS) == '{"type":"register"}'
    assert pauses == [None]


def test_a_rank_connects_to_the_next_broker_after_a_refusal(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    desk.reach = reach(start_broker(status=503), start_broker())
    link.start()
    assert link.wait_connected(SECONDS) is None


def test_the_link_registers_with_its_token_and_sends_and_receives_at_once(
    broker: FakeBroker, desk: FakeDesk, link: Link
) -> None:
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
    (descriptor,) = link.descriptors()
    with socket.socket(fileno=os.dup(descriptor)) as connected:
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("how", ["a cut", "a broken frame", "messages that would get lost"])
def test_the_link_reconnects_and_registers_again(
    broker: FakeBroker, desk: FakeDesk, link: Link, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    connection = broker.connections.get(timeout=SECONDS)
    if how == "a cut":
        broker.cut(connection)
    elif how == "a broken frame":
        broker.send(connection, "not json")
    else:
        with monkeypatch.context() as patch:
            patch.setattr(outgoing, "MAX_MESSAGES", 0)
            link.outgoing.put_message('{"type":"notice","text":"one too many"}')
    desk.disconnects.get(timeout=SECONDS)
    assert broker.connections.get(timeout=SECONDS) is not None
    assert link.wait_connected(SECONDS) is None
    assert desk.registrations == 2


def test_a_rank_turned_away_dials_another_broker_after_a_pause(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link, pauses: list[DbgError | None]
) -> None:
    busy, other = start_broker(hangs_up=9), start_broker()
    desk.reach = reach(busy, other)
    link.start()
    assert link.wait_connected(SECONDS) is None
    assert [type(error) for error in pauses] == [ConnectionClosedEarly]
    assert busy.requests.qsize() == 1


def test_a_dead_loop_is_replaced_with_its_timers(
    broker: FakeBroker, desk: FakeDesk, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = broker.connections.get(timeout=SECONDS)
    called = threading.Event()
    link.call_later(seconds(0.5), called.set)
    with monkeypatch.context() as patch:
        patch.setattr(OwnSocket, "is_open", lambda _socket: False)
        desk.disconnects.get(timeout=seconds(SILENT_SECONDS + 5.0))
    assert broker.connections.get(timeout=SECONDS) is not None
    assert called.wait(SECONDS)
    # Its socket was given up unclosed, as if the number were the program's.
    broker.cut(first)


def test_a_link_that_cannot_make_a_new_loop_reports_it(
    broker: FakeBroker, desk: FakeDesk, link: Link, monkeypatch: pytest.MonkeyPatch, pauses: list[DbgError | None]
) -> None:
    first = broker.connections.get(timeout=SECONDS)

    def no_room() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    # The loop looks at its descriptors when it has something to do.
    link.call_later(seconds(0.5), lambda: None)
    monkeypatch.setattr(socket, "socketpair", no_room)
    monkeypatch.setattr(OwnSocket, "is_open", lambda _socket: False)
    assert "Too many open files" in str(desk.given_up.get(timeout=SECONDS))
    assert not link.keeps_trying
    broker.cut(first)


def test_the_link_finds_a_broker_that_starts_later(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link
) -> None:
    link.start()
    for _ in range(2):
        assert isinstance(link.wait_connected(0.2), NoBroker)
    desk.reach = reach(start_broker())
    assert link.wait_connected(None) is None


def test_closing_sends_the_pending_goodbye(broker: FakeBroker, link: Link) -> None:
    broker.frames.get(timeout=SECONDS)
    link.outgoing.put_message(encode(Goodbye(exit=3)))
    link.close()
    goodbye = broker.frames.get(timeout=SECONDS)
    assert decode(goodbye, Sender.AGENT) == Goodbye(exit=3)


def is_running() -> bool:
    return any(thread.name == "dbg-agent" for thread in threading.enumerate())


def test_closing_does_not_wait_for_a_broker_that_never_answered(desk: FakeDesk) -> None:
    link = Link(desk)
    link.start()
    link.wait_connected(0.0)
    link.close()
    assert not is_running()


def test_other_brokers_are_dialled_before_a_silent_one(
    start_broker: Callable[..., FakeBroker], desk: FakeDesk, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "PING_ATTENDED_SECONDS", 0.1)
    monkeypatch.setattr(dialling, "SILENT_SECONDS", 0.3)
    desk.attended = True
    first, second = start_broker(), start_broker()
    desk.reach = reach(first, second)
    link.start()
    assert link.wait_connected(SECONDS) is None
    enough = threading.Event()
    first.suspend(enough)
    assert second.frames.get(timeout=SECONDS) == '{"type":"register"}'
    enough.set()


def pinned(port: int, host: str = "127.0.0.1") -> Route:
    return Route(endpoint=Endpoint(host=host, port=port, fingerprint=PIN), token=TOKEN, sources={})


@pytest.mark.parametrize("what", ["name server", "home"])
def test_a_hanging_lookup_blocks_neither_the_timers_nor_the_end(
    desk: FakeDesk, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    asked, enough = threading.Event(), threading.Event()
    really = socket.getaddrinfo

    def hang(opening: object = None) -> Route:
        asked.set()
        enough.wait()
        raise OSError("too late")

    def look_up(host: str, *arguments: object, **options: object) -> object:
        if host == "login1" and not options.get("flags"):
            hang()
        return really(host, *arguments, **options)  # type: ignore[arg-type]

    if what == "home":
        desk.find_broker = hang  # type: ignore[method-assign]
    else:
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        desk.reach = pinned(1, "login1")
    link = Link(desk)
    link.start()
    assert asked.wait(SECONDS)
    rang = threading.Event()
    link.call_later(0.05, rang.set)
    assert rang.wait(SECONDS)
    link.close()
    assert not is_running()
    enough.set()


def test_an_error_of_a_signal_handler_while_the_home_hangs_reaches_the_program(
    desk: FakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough = threading.Event()

    def hang(opening: object) -> Route:
        enough.wait()
        raise AssertionError("too late")

    def ring(*_: object) -> None:
        raise LookupError("from the program")

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if timeout:
                signal.raise_signal(signal.SIGALRM)
            return super().wait(timeout)

    class InterruptedQuestion(fork_safety.Lookup):
        def __init__(self) -> None:
            super().__init__()
            self.ended = Interrupted()

    desk.find_broker = hang  # type: ignore[method-assign]
    link = Link(desk)
    monkeypatch.setattr(fork_safety, "Lookup", InterruptedQuestion)
    link.start()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(LookupError, match="from the program"):
            link.wait_connected(0.0)
    finally:
        signal.signal(signal.SIGALRM, before)
        link.close()
        enough.set()


def test_a_rank_returns_to_its_broker_while_the_home_hangs(
    broker: FakeBroker, desk: FakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "SLOW_SECONDS", 0.05)
    assert broker.frames.get(timeout=SECONDS) == '{"type":"register"}'
    desk.home_answers.clear()
    broker.cut(broker.connections.get(timeout=SECONDS))
    assert broker.frames.get(timeout=SECONDS) == '{"type":"register"}'
    desk.home_answers.set()


@contextlib.contextmanager
def full_port() -> Iterator[int]:
    """Yield a port whose kernel answers no connection, like a network that drops everything: its queue is full."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.create_connection(full.getsockname()):
            yield full.getsockname()[1]


def test_an_impatient_wait_ends_when_no_connection_is_accepted(desk: FakeDesk, link: Link) -> None:
    with full_port() as port:
        desk.reach = pinned(port)
        link.start()
        assert link.wait_connected(1e6, unanswered=0.2) is not None


def test_a_link_is_served_as_long_as_a_process_listens(desk: FakeDesk, link: Link) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        desk.reach = pinned(silent.getsockname()[1])
        assert not link.is_served
        link.start()
        connection, _ = silent.accept()
        assert connection.recv(1)
        assert link.wait_connected(0.0) is not None
        assert link.is_served
    connection.close()
    assert link.wait_connected(math.inf, unanswered=0.2) is not None
    assert not link.is_served


LONG = 1e6
"""Seconds that a rank is told to wait for a broker."""


class Clock:
    """A clock that stands still until a rank has tried to find its broker, and was read twice since; then LONG is over.

    A rank that gives up returns from its wait between these two readings.
    """

    def __init__(self, has_tried: Callable[[], object]) -> None:
        self._has_tried = has_tried
        self._readings = 0
        self._reader = threading.get_ident()

    def __call__(self) -> float:
        if threading.get_ident() == self._reader and self._has_tried():
            self._readings += 1
        return LONG if self.is_over else 0.0

    @property
    def is_over(self) -> bool:
        return self._readings > 1


Make = Callable[[Path], contextlib.AbstractContextManager[Mapping[str, str]]]
"""Makes a fault in a home, and gives the variables that lead a rank to it."""


def named(**variables: str) -> Make:
    return lambda _home: contextlib.nullcontext(variables)


def port(opened: Callable[[], contextlib.AbstractContextManager[int]]) -> Make:
    @contextlib.contextmanager
    def make(_home: Path) -> Iterator[Mapping[str, str]]:
        with opened() as number:
            yield {"DBG_BROKER": f"127.0.0.1:{number}#{PIN}", "DBG_TOKEN": fake.TOKEN}

    return make


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """Yield a port that no process listens on, and that none gets."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@contextlib.contextmanager
def mute_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def answers(answer: fake.Answer, **changes: str) -> Make:
    @contextlib.contextmanager
    def make(_home: Path) -> Iterator[Mapping[str, str]]:
        with fake.FakeBroker(answer) as broker:
            pins = {name: broker.variables[name].partition("#")[0] + pin for name, pin in changes.items()}
            yield broker.variables | pins

    return make


def file(name: str, text: str | None) -> Make:
    """Write a file, or make a pipe without a writer."""

    @contextlib.contextmanager
    def make(home: Path) -> Iterator[Mapping[str, str]]:
        path = home / name
        if text is None:
            os.mkfifo(path)
        else:
            path.write_text(text)
        path.chmod(0o600)
        yield {}

    return make


def refuses(status: str, body: str = "because of a test\x1b[31m\n\nsecond line") -> Make:
    return answers(fake.answer_status(status, body))


ABSENT: dict[str, tuple[Make, type[DbgError]]] = {
    "nobody": (named(), NoBroker),
    "closed port": (port(closed_port), BrokerUnreachable),
    "mute port": (port(mute_port), BrokerUnreachable),
    "black hole": (port(full_port), BrokerUnreachable),
    "hangs up": (answers(fake.hang_up), ConnectionClosedEarly),
    "says nothing": (answers(fake.stay_silent), BrokerUnreachable),
    "no welcome": (answers(fake.accept_and_send(fake.message(type="future"))), BrokerUnreachable),
}
"""Faults that a broker's start may still end: a rank waits until its time is over."""

FINAL: dict[str, tuple[Make, type[DbgError]]] = {
    "wrong token": (refuses("401 Unauthorized"), WrongToken),
    "other certificate": (answers(fake.hang_up, DBG_BROKER=f"#{PIN}"), WrongCertificate),
    "other major": (refuses("426 Upgrade Required"), WrongVersion),
    "another service": (answers(fake.answer_bytes(b"SSH-2.0-OpenSSH_9.2\r\n")), NotABroker),
    "no pin": (named(DBG_BROKER="login1:6900", DBG_TOKEN=fake.TOKEN), BadEndpoint),
    "no token": (named(DBG_BROKER=f"login1:6900#{PIN}"), BadInput),
    "broker.json a pipe": (file("broker.json", None), BadSecretFile),
    "broker.json newer": (file("broker.json", '{"schema":2}'), BadSecretFile),
}
"""Faults that no wait ends: a rank names them at once."""

SILENT = {"mute port", "black hole", "says nothing"}
"""Faults that show only when seconds have passed."""


@pytest.mark.parametrize("case", [*ABSENT, *FINAL])
def test_a_rank_waits_only_for_faults_that_may_pass(
    approved: Approved,
    tmp_path: Path,
    desk: FakeDesk,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    has_failed = threading.Event()

    def pause(_dialler: Dialler, _error: DbgError | None) -> float:
        has_failed.set()
        return LONG

    monkeypatch.setattr(Dialler, "pause", pause)
    monkeypatch.setattr(link_module, "SIGNAL_SECONDS", 0.05)
    make, kind = (ABSENT | FINAL)[case]
    with make(tmp_path) as variables:
        environ = {"DBG_HOME": str(tmp_path), **variables}

        def find_broker(opening: Opening) -> Route:
            desk.finds += 1
            return find_ranks_broker(None, environ, opening)

        desk.find_broker = find_broker  # type: ignore[method-assign]
        clock = Clock(lambda: has_failed.is_set() or desk.registrations or (desk.finds and case in SILENT))
        link = Link(desk, clock)
        link.start()
        problem = link.wait_connected(LONG)
        assert type(problem) is kind
        assert clock.is_over == (case in ABSENT)
        assert str(problem).isprintable()
        assert fake.TOKEN not in str(problem)
        if case not in ("another service", "other certificate"):
            # Releases of websockets say differently what is wrong with its answer, and each certificate is another.
            approved(str(problem))
        # Later calls in a loop pay nothing.
        assert type(link.wait_connected(LONG)) is kind
        link.close()
