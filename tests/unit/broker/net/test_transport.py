"""The transport of an accepted socket: what comes and goes, whole and to its end, with TLS and without."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from dbg_broker.home.certificate import load_own
from dbg_broker.net import websocket
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.connections import Connections
from dbg_broker.net.handshakes import Handshakes
from dbg_broker.net.memory_socket import MemorySocket
from dbg_broker.net.tcp import peer_name
from dbg_broker.net.transport import UNREAD_BYTES, WRITE_HIGH_WATER, SocketTransport
from dbg_broker.net.websocket import (
    MAX_UNFINISHED_BYTES,
    MESSAGE_SECONDS,
    Fragments,
    Unfinished,
    WebSocket,
    pack_message,
)
from dbg_broker.timers import Timers
from dbg_dial.memory import ask_memory, socket_name
from dbg_wire import limits
from dbg_wire.messages import Probe
from tests.unit.broker.peers import SECONDS, Broker, Peer, registration, trusting_context

MUCH = bytes(range(256)) * 16 * 1024
"""More than the kernel takes of a peer that reads nothing."""


class Watched(PeerConnection):
    """A connection that keeps what its transport tells it."""

    def __init__(self, handshakes: Handshakes | None) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(1, "127.0.0.1:1", Connections(Timers(loop.time, loop.call_later)))
        self.handshakes = handshakes
        self.came = bytearray()
        self.told: list[str] = []
        self.errors: list[Exception] = []
        self.changed = asyncio.Event()

    def handshake_waits(self, transport: SocketTransport) -> None:
        assert self.handshakes is not None
        self.handshakes.submit(transport, self.network, is_slow=False)

    def data_received(self, data: bytes) -> None:
        self.came += data
        self.changed.set()

    def eof_received(self) -> None:
        self._note("eof")

    def failed(self, error: Exception) -> None:
        self.errors.append(error)

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def connection_lost(self) -> None:
        self._note("lost")

    def _note(self, what: str) -> None:
        self.told.append(what)
        self.changed.set()

    async def until(self, what: str) -> None:
        """Wait until the transport has told something."""
        while what not in self.told:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), SECONDS)

    async def has(self, count: int) -> bytes:
        """Wait until so many bytes have come."""
        while len(self.came) < count:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), SECONDS)
        return bytes(self.came)


class Pair:
    """A server's transport, and the blocking socket of its peer, used by threads."""

    def __init__(self, context: ssl.SSLContext | None, handshakes: Handshakes | None = None) -> None:
        near, self.far = socket.socketpair()
        near.setblocking(False)
        self.far.settimeout(SECONDS)
        self.connection = Watched(handshakes)
        self.transport = SocketTransport(near, self.connection, context)
        self.is_secure = context is not None

    async def shake_hands(self) -> None:
        """Complete the TLS, if there is to be one."""
        if self.is_secure:
            self.far = await asyncio.to_thread(trusting_context().wrap_socket, self.far)
            await self.say(b"?")
            await self.connection.has(1)
            self.connection.came.clear()
        assert self.transport.is_shaken

    async def say(self, data: bytes) -> None:
        await asyncio.to_thread(self.far.sendall, data)

    async def hear(self, count: int) -> bytes:
        """Read so many bytes, or up to the end."""

        def read() -> bytes:
            heard = b""
            while len(heard) < count and (data := self.far.recv(UNREAD_BYTES)):
                heard += data
            return heard

        return await asyncio.to_thread(read)

    def close(self) -> None:
        self.transport.abort()
        self.far.close()


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return load_own(tmp_path_factory.mktemp("home", numbered=True)).context


@pytest.fixture
async def handshakes() -> AsyncIterator[Handshakes]:
    loop = asyncio.get_running_loop()
    pool = Handshakes(Timers(loop.time, loop.call_later))
    yield pool
    pool.close()


@pytest.fixture(params=["plain", "TLS"])
async def pair(request: pytest.FixtureRequest, context: ssl.SSLContext, handshakes: Handshakes) -> AsyncIterator[Pair]:
    made = Pair(context if request.param == "TLS" else None, handshakes)
    await made.shake_hands()
    yield made
    made.close()


async def test_what_is_said_arrives_whole(pair: Pair) -> None:
    saying = asyncio.create_task(pair.say(MUCH))
    assert await pair.connection.has(len(MUCH)) == MUCH
    await saying


async def test_what_is_written_arrives_whole_and_the_writer_is_told_when_to_wait(pair: Pair) -> None:
    pair.transport.write(MUCH)
    assert pair.connection.told == ["pause"]
    assert pair.transport.buffered > WRITE_HIGH_WATER
    pair.transport.write(b"and more")
    assert await pair.hear(len(MUCH) + 8) == MUCH + b"and more"
    await pair.connection.until("resume")
    assert pair.transport.buffered == 0
    assert pair.connection.told == ["pause", "resume"]


async def test_a_close_writes_what_there_is_and_an_abort_does_not_wait(pair: Pair) -> None:
    pair.transport.write(MUCH)
    pair.transport.close()
    assert pair.transport.is_closing
    assert await pair.hear(2 * len(MUCH)) == MUCH
    await pair.connection.until("lost")
    assert pair.transport.socket.fileno() < 0


async def test_a_peer_that_ends_its_output_ends_the_connection(pair: Pair) -> None:
    if isinstance(pair.far, ssl.SSLSocket):
        # The goodbye of TLS, behind which the socket stays open.
        await pair.say(b"last")
        pair.far.settimeout(0)
        with suppress(OSError):
            pair.far.unwrap()
    else:
        await pair.say(b"last")
        pair.far.shutdown(socket.SHUT_WR)
    await pair.connection.until("lost")
    assert pair.connection.came == b"last"
    assert pair.connection.told == ["eof", "lost"]


@given(st.binary(min_size=1, max_size=200))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_no_tls_is_an_error_of_ssl_and_no_other(context: ssl.SSLContext, data: bytes) -> None:
    async def junk() -> Watched:
        pair = Pair(context)
        pair.far.send(data)
        pair.far.shutdown(socket.SHUT_WR)
        assert pair.transport.lend()
        pair.transport.shake()
        pair.transport.take_back()
        await pair.connection.until("lost")
        pair.far.close()
        return pair.connection

    (error,) = asyncio.run(junk()).errors
    assert isinstance(error, ssl.SSLError)


@pytest.fixture
def runtime() -> Iterator[Path]:
    path = tempfile.mkdtemp(prefix="dbg-run-")
    yield Path(path)
    shutil.rmtree(path, ignore_errors=True)


def made(runtime: Path, home: Path, *more: str) -> MemorySocket:
    directories = (*more, f"{runtime}/dbg-broker")
    return MemorySocket(directories, socket_name(str(home)), lambda pid, seconds: f"{pid > 1} {seconds:g}")


async def asked(runtime: Path, home: Path) -> str | None:
    return await asyncio.to_thread(ask_memory, str(home), {"XDG_RUNTIME_DIR": str(runtime)}, 12.0)


async def test_it_answers_until_it_is_closed_and_leaves_nothing(runtime: Path, tmp_path: Path) -> None:
    socket = made(runtime, tmp_path)
    path = await socket.open()
    assert path == f"{runtime}/dbg-broker/{socket_name(str(tmp_path))}"
    assert await asked(runtime, tmp_path) == "True 12"
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert await asked(runtime, link) == "True 12"
    assert await asked(runtime, tmp_path / "other") is None
    socket.close()
    assert await asked(runtime, tmp_path) is None
    assert list((runtime / "dbg-broker").iterdir()) == []


async def test_a_socket_that_a_killed_broker_left_is_replaced(runtime: Path, tmp_path: Path) -> None:
    first, second = made(runtime, tmp_path), made(runtime, tmp_path)
    await first.open()
    await second.open()
    # The older one must not remove what is not its own any more.
    first.close()
    assert await asked(runtime, tmp_path) == "True 12"
    second.close()


async def test_a_directory_of_others_is_passed_over(runtime: Path, tmp_path: Path) -> None:
    (runtime / "open").mkdir(mode=0o755)
    (runtime / "file").write_text("")
    socket = made(
        runtime, tmp_path, f"{runtime}/open", f"{runtime}/file", "/no/such/directory", f"{runtime}/{'x' * 120}"
    )
    assert await socket.open() == f"{runtime}/dbg-broker/{socket_name(str(tmp_path))}"
    socket.close()
    nowhere = MemorySocket([f"{runtime}/open"], "x.sock", lambda pid, seconds: "")
    assert await nowhere.open() is None
    nowhere.close()


@pytest.mark.parametrize(
    ("address", "name"),
    [(("10.0.0.1", 5), "10.0.0.1:5"), (("::1", 5, 0, 0), "[::1]:5"), ("", "?"), (None, "?")],
)
def test_addresses_are_written_as_people_do(address: object, name: str) -> None:
    assert peer_name(address) == name


KEY = registration().identity.key
PART = 512 * limits.KIB


def test_a_message_has_its_own_time_from_where_it_begins() -> None:
    messages = Unfinished()
    messages.note(1, 10, 0.0, is_new=False)
    messages.note(2, 10, 1.0, is_new=False)
    messages.note(1, 20, 2.0, is_new=False)
    assert messages.overdue(MESSAGE_SECONDS - 0.1) == []
    assert messages.overdue(MESSAGE_SECONDS) == [1]
    messages.note(1, 20, 3.0, is_new=True)
    assert messages.overdue(MESSAGE_SECONDS + 1) == [2]
    messages.note(2, 0, 4.0, is_new=True)
    assert messages.size == 20
    messages.drop(1)
    messages.drop(1)
    assert (messages.size, messages.overdue(1e9), messages.heaviest()) == (0, [], None)


def test_who_keeps_most_goes() -> None:
    messages = Unfinished()
    messages.note(1, 1000, 0.0, is_new=False)
    for number in range(2, 66):
        messages.note(number, limits.MIB - number, 1.0, is_new=False)
    assert messages.heaviest() is None
    messages.note(1, limits.MIB, 2.0, is_new=False)
    assert messages.size > MAX_UNFINISHED_BYTES
    assert messages.heaviest() == 1


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


def test_messages_are_text() -> None:
    assert pack_message(Probe()) == Frame(Opcode.TEXT, b'{"type":"probe"}').serialize(mask=False)


def test_a_ping_is_answered_and_short_frames_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(websocket, "ServerProtocol")
    opened = WebSocket()
    came = [Frame(Opcode.TEXT, b"one"), Frame(Opcode.PING, b"there?"), Frame(Opcode.BINARY, b"two")]
    assert opened.receive(b"".join(frame.serialize(mask=True) for frame in came))
    messages = [opened.message(opened.frames.pop()) for _ in came]
    assert messages == [(Opcode.TEXT, b"one"), None, (Opcode.BINARY, b"two")]
    assert opened.data_to_send() == [Frame(Opcode.PONG, b"there?").serialize(mask=False)]
    assert opened.data_to_send() == []
    assert (opened.is_open, opened.breach, opened.unfinished()) == (True, "", None)


def test_fragments_become_one_message_of_the_kind_of_the_first() -> None:
    fragments = Fragments()
    assert not fragments.is_begun
    assert fragments.add(Frame(Opcode.TEXT, b"", fin=False)) is None
    assert fragments.add(Frame(Opcode.CONT, b"one ", fin=False)) is None
    assert fragments.is_begun
    assert fragments.add(Frame(Opcode.PING, b"between")) is None
    assert fragments.add(Frame(Opcode.CONT, b"two ", fin=False)) is None
    assert len(fragments) == len(b"one two ")
    assert fragments.add(Frame(Opcode.CONT, b"three")) == (Opcode.TEXT, b"one two three")
    assert (len(fragments), fragments.is_begun) == (0, False)
    assert fragments.add(Frame(Opcode.BINARY, b"whole")) == (Opcode.BINARY, b"whole")
