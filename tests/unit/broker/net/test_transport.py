"""The transport of an accepted socket: what comes and goes, whole and to its end, with TLS and without."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dbg_broker.home.certificate import load_own
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.connections import Connections
from dbg_broker.net.handshakes import Handshakes
from dbg_broker.net.transport import UNREAD_BYTES, WRITE_HIGH_WATER, SocketTransport
from dbg_broker.timers import Timers
from tests.unit.broker.peers import SECONDS, trusting_context

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


async def test_nothing_is_read_during_a_pause(pair: Pair) -> None:
    pair.transport.pause_reading()
    await pair.say(b"first")
    for _ in range(3):
        await asyncio.sleep(0)
    assert not pair.connection.came
    pair.transport.resume_reading()
    assert await pair.connection.has(5) == b"first"


async def test_the_end_of_the_output_comes_behind_all_that_was_written(pair: Pair) -> None:
    pair.transport.write(MUCH)
    pair.transport.end_output()
    pair.transport.end_output()
    pair.transport.write(b"too late")
    assert await pair.hear(2 * len(MUCH)) == MUCH
    # What the peer still says is not worth decrypting; that it goes ends the connection.
    with suppress(OSError):
        await pair.say(b"unheard")
    pair.far.close()
    await pair.connection.until("lost")
    assert not pair.connection.came


async def test_a_close_writes_what_there_is_and_an_abort_does_not_wait(pair: Pair) -> None:
    pair.transport.write(MUCH)
    pair.transport.close()
    assert pair.transport.is_closing
    assert await pair.hear(2 * len(MUCH)) == MUCH
    await pair.connection.until("lost")
    assert pair.transport.socket.fileno() < 0


async def test_an_abort_ends_the_connection_once_whatever_waits(pair: Pair) -> None:
    pair.transport.write(MUCH)
    pair.transport.abort()
    pair.transport.abort()
    pair.transport.close()
    await pair.connection.until("lost")
    await asyncio.sleep(0)
    assert pair.connection.told == ["pause", "lost"]
    assert pair.transport.buffered == 0


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


async def test_a_record_with_a_wrong_byte_is_an_error_of_tls(context: ssl.SSLContext, handshakes: Handshakes) -> None:
    pair = Pair(context, handshakes)
    await pair.shake_hands()
    socket.socket.send(pair.far, b"\x17\x03\x03\x00\x20" + bytes(32))
    await pair.connection.until("lost")
    (error,) = pair.connection.errors
    assert isinstance(error, ssl.SSLError)
    pair.close()


async def test_nothing_is_written_before_the_handshake(context: ssl.SSLContext) -> None:
    pair = Pair(context)
    pair.transport.write(b"in plain")
    pair.transport.end_output()
    assert await pair.hear(1) == b""
    await pair.connection.until("lost")
    pair.close()


async def test_a_peer_that_goes_without_a_byte_gets_no_tls(context: ssl.SSLContext) -> None:
    pair = Pair(context)
    pair.far.close()
    await pair.connection.until("lost")
    assert not isinstance(pair.transport.socket, ssl.SSLSocket)


async def test_a_peer_that_has_gone_behind_its_hello_is_not_answered(context: ssl.SSLContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        far, near = socket.create_connection(listener.getsockname()), listener.accept()[0]
    near.setblocking(False)
    connection = Watched(None)
    transport = SocketTransport(near, connection, context)
    far.send(b"hello")
    far.close()
    gone = select.poll()
    gone.register(near, select.POLLRDHUP)
    assert gone.poll(1000 * SECONDS)
    assert not transport.lend()
    await connection.until("lost")
    assert not isinstance(transport.socket, ssl.SSLSocket)


async def test_a_connection_that_is_given_up_is_closed_when_its_thread_is_done(context: ssl.SSLContext) -> None:
    pair = Pair(context)
    assert pair.transport.lend()
    pair.transport.abort()
    await asyncio.sleep(0)
    assert pair.connection.told == []
    pair.transport.shake()
    pair.transport.take_back()
    assert pair.connection.told == ["lost"]
    assert not pair.transport.lend()
    pair.close()


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


def test_an_open_connection_can_not_shake_hands_anew(tmp_path: Path) -> None:
    assert load_own(tmp_path).context.options & ssl.OP_NO_RENEGOTIATION
