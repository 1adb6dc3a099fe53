"""TLS handshakes: what threads do of them, what the loop does, and how many the threads are given."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from dbg_broker.home.certificate import load_own
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.connections import Connections
from dbg_broker.net.handshakes import GIVEN_TO_EACH, Handshakes
from dbg_broker.net.transport import SocketTransport
from dbg_broker.timers import Timers
from tests.unit.broker.peers import SECONDS, Broker, running_broker


@pytest.fixture
def shaking(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note for each step of a handshake whether the loop's thread did it."""
    steps: list[bool] = []
    shake = SocketTransport.shake

    def noted(transport: SocketTransport) -> None:
        steps.append(threading.current_thread() is threading.main_thread())
        shake(transport)

    monkeypatch.setattr(SocketTransport, "shake", noted)
    return steps


async def readers_of(broker: Broker) -> int:
    """Return how often the loop was told to read a connection until that is a rank's."""
    loop, added = asyncio.get_running_loop(), []
    add_reader = loop.add_reader
    ours = broker.server.listener.fileno()

    def counted(fd: int, *args: object) -> None:
        if fd != ours:
            added.append(fd)
        add_reader(fd, *args)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "add_reader", counted)
        await broker.rank()
    return len(added)


async def test_a_thread_answers_the_hello_and_the_loop_does_the_rest(tmp_path: Path, shaking: list[bool]) -> None:
    async with running_broker(tmp_path, tls=True) as broker:
        readers = await readers_of(broker)
    in_thread, *others = shaking
    assert not in_thread
    # A slow thread finds the peer's last word in its own step.
    assert all(others)
    assert len(others) <= 1
    assert readers == 1 + len(shaking)


async def test_a_connection_without_tls_is_given_to_the_loop_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        assert await readers_of(broker) == 1


async def test_a_server_that_stops_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    async with running_broker(tmp_path, tls=True) as broker:
        await broker.rank()
        assert threading.active_count() > before
    assert not any(thread.name == "dbg-broker-tls" for thread in threading.enumerate())


async def test_the_threads_are_given_few_at_a_time_and_each_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, context = asyncio.get_running_loop(), load_own(tmp_path).context
    timers = Timers(loop.time, loop.call_later)
    pool, owner, come_back = Handshakes(timers), Connections(timers), asyncio.Event()
    may_go_on, pairs, given, back = threading.Event(), [socket.socketpair() for _ in range(50)], [], []

    def shake(_: SocketTransport) -> None:
        may_go_on.wait(SECONDS)

    def lend(transport: SocketTransport) -> bool:
        given.append(transport)
        return True

    def take_back(transport: SocketTransport) -> None:
        back.append(transport)
        if len(back) == len(pairs):
            come_back.set()

    for changed in (shake, lend, take_back):
        monkeypatch.setattr(SocketTransport, changed.__name__, changed)
    for near, _ in pairs:
        transport = SocketTransport(near, PeerConnection(1, "10.0.0.1:1", owner), context)
        pool.submit(transport, "10.0.0.1", is_slow=False)
    for _ in range(10):
        await asyncio.sleep(0)
    assert GIVEN_TO_EACH <= len(given) < len(pairs)
    assert len(given) % GIVEN_TO_EACH == 0
    may_go_on.set()
    await asyncio.wait_for(come_back.wait(), SECONDS)
    assert set(back) == set(given)
    pool.close()
    for transport in given:
        transport.abort()
    for near, far in pairs:
        near.close()
        far.close()
