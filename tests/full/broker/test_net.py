"""Handshakes that the broker refuses, and the end of peers that break the protocol, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.client
import logging
import os
import resource
import socket
import ssl
import subprocess
import sys
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.protocol import State
from websockets.server import ServerProtocol

from dbg_broker.classic.callers import MAX_CALLERS, MIN_DRAWN
from dbg_broker.classic.screen import MAX_KEPT
from dbg_broker.net import websocket
from dbg_broker.net.http import Request, path_shown
from dbg_broker.net.loop import TICK_SECONDS, WHOLE_AT_LATEST_SECONDS, WHOLE_SECONDS, GarbageCollection
from dbg_broker.net.places import (
    RankPlaces,
)
from dbg_broker.ranks.liveness import is_dead
from dbg_broker.ranks.registry import Registry
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.codec import Input
from dbg_wire.messages import (
    Notice,
    Register,
    Repaint,
    Sender,
)
from dbg_wire.records.ranks import Breakpoint, Place
from tests.support.serving import SECONDS, Serve, tokens
from tests.unit.broker.classic.test_screen import (
    ENTER,
    LEAVE,
    drawing,
    of_type,
    screen,
    shown,
    stopped,
    written,
)
from tests.unit.broker.classic.test_sessions import HOST, SCREEN, ClassicBroker, port, watching
from tests.unit.broker.net.test_connection import CHUNK, KEY
from tests.unit.broker.net.test_loop import flood
from tests.unit.broker.net.test_places import fill
from tests.unit.broker.peers import RUNNING, Broker, Peer, narrow, registration

__all__ = ["port"]


def stack(number: int, frames: int = limits.MAX_STACK_FRAMES) -> tuple[Place, ...]:
    return tuple(
        Place(file=f"/{number}/{line}" + "x" * 1000, line=line, function=f"{line}" + "f" * 1000)
        for line in range(frames)
    )


def heavy(number: int) -> Register:
    points = tuple(Breakpoint(file=f"/{number}/{line}" + "x" * 4000, line=1) for line in range(100))
    return registration(number, script=f"/{number}" + "s" * 4000, report=RUNNING.replace(user_breakpoints=points))


async def test_a_connection_has_no_object_of_the_library_and_keeps_no_request(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ServerProtocol] = []

    def make(**options: Any) -> ServerProtocol:
        made.append(ServerProtocol(**options))
        return made[-1]

    monkeypatch.setattr(websocket, "ServerProtocol", make)
    rank = await broker.rank()
    await (await rank.websocket.ping(b"there?"))
    assert made == []
    gc.collect()
    # Its type is compared: isinstance() asks each object of the process for its class, and some of torch's warn then.
    kept = [thing for thing in gc.get_objects() if type(thing) is Request]
    assert kept == []
    await rank.websocket.close()
    assert [one.state for one in made] == [State.CLOSED]


class Circle:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


class Clock:
    """Simulated time, and the next call that is due."""

    def __init__(self) -> None:
        self.now = 0.0
        self.types = False
        self.due: list[Callable[[], None]] = []
        self.garbage = GarbageCollection(lambda: self.types, Timers(lambda: self.now, self._schedule))

    def _schedule(self, seconds: float, call: Callable[[], None]) -> None:
        assert seconds == TICK_SECONDS
        self.due = [call]

    def look_at(self, now: float) -> None:
        self.now = now
        self.due[0]()


@pytest.fixture
def clock() -> Iterator[Clock]:
    before = gc.get_threshold()
    clock = Clock()
    clock.garbage.begin()
    yield clock
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_is_set_aside_goes_away_when_nobody_types(clock: Clock) -> None:
    circle = Circle()
    gc.collect()
    gc.freeze()
    is_gone = weakref.ref(circle)
    del circle
    clock.types = True
    clock.look_at(WHOLE_SECONDS)
    gc.collect()
    assert is_gone() is not None
    clock.types = False
    clock.look_at(WHOLE_SECONDS + 1)
    assert is_gone() is None


def test_what_is_set_aside_goes_away_at_last_though_somebody_types(clock: Clock) -> None:
    circle = Circle()
    gc.collect()
    gc.freeze()
    is_gone = weakref.ref(circle)
    del circle
    clock.types = True
    clock.look_at(WHOLE_AT_LATEST_SECONDS)
    assert is_gone() is None


def test_python_itself_goes_through_young_objects_alone(clock: Clock) -> None:
    before = gc.get_stats()[2]["collections"]
    circles = [Circle() for _ in range(50_000)]
    assert gc.get_stats()[2]["collections"] == before
    assert gc.get_count()[2] > 0
    clock.look_at(TICK_SECONDS)
    assert gc.get_stats()[2]["collections"] == before + 1
    assert gc.get_freeze_count() > len(circles)


LONG = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("/client", "/client"),
        (f"/client?token={LONG}", "/client"),
        (f"/client#token={LONG}", "/client"),
        (f"/client/{LONG}", "/client/0123456…"),
        (f"/{LONG}", "/0123456789abcd…"),
        ("/\x1b]0;x\x07", r"/\x1b]0;x\x07"),
        ("", ""),
    ],
)
def test_a_path_is_shown_without_what_may_be_a_token(target: str, shown: str) -> None:
    assert path_shown(target) == shown


def test_a_token_in_a_query_is_not_logged(serve: Serve) -> None:
    serving = serve("--listen", "127.0.0.1:0", "-vv")
    secrets = tokens(serving.home)
    context = ssl.create_default_context(cafile=str(serving.home / "certificate.pem"))
    context.check_hostname = False
    for secret in secrets:
        for path in (f"/client?token={secret}", f"/nothing?{secret}", f"/{secret}"):
            asking = http.client.HTTPSConnection("127.0.0.1", serving.port, timeout=SECONDS, context=context)
            asking.request("GET", path)
            assert asking.getresponse().status in (401, 404)
            asking.close()
    _, _, errors = serving.end()
    assert errors.count("is refused: 40") == 9
    assert not any(secret in errors for secret in secrets)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, b"a", b"b"]), st.sampled_from(["x", "y"]))))
def test_what_has_left_takes_no_place(steps: list[tuple[int, bytes | None, str]]) -> None:
    places = RankPlaces(1000)
    for number, (_, token, address) in enumerate(steps):
        places.take(number, token, address)
    for number in range(len(steps)):
        places.leave(number)
        places.leave(number)
    assert fill(places, b"a", "x") == 750


async def test_a_rank_that_reads_no_refusals_is_closed_and_keys_go_on(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At the real bound on a rank's bytes, it would take half a minute until too many refusals wait.
    monkeypatch.setattr(limits, "MAX_REPORTED_PER_SECOND", 1024 * limits.MIB)
    # With its usual buffer the kernel takes megabytes of refusals, and the broker would write them for seconds.
    broker.server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * limits.KIB)
    websocket = await broker.dial("/agent", broker.tokens.rank, max_queue=1, sock=narrow(broker))
    flooding = Peer(websocket, Sender.AGENT)
    rank = await broker.rank()
    driver = await broker.seated(registration().identity.key)
    attacked = asyncio.create_task(flood(flooding, 100_000))
    left = asyncio.create_task(broker.left(lambda hub: len(hub.links) == 2))
    offset = 0
    while not left.done():
        key = Input(session=1, stop=1, generation=1, offset=offset, data=b"n")
        await driver.send(key)
        assert await rank.expect_data() == key
        offset += 1
    await left
    attacked.cancel()
    flooding.websocket.transport.resume_reading()
    assert offset > 10


def test_a_screen_that_grew_too_long_is_cut_and_says_so_until_the_next_step() -> None:
    session = stopped()
    for number in range(2000):
        session.received(drawing(f"{number:4} {'x' * 60}"), 0.0)
    outputs = session.message(Repaint(), 0.0)
    assert len(shown(outputs)) <= MAX_KEPT + 100
    assert screen(shown(outputs))[0].startswith("1999 xxx")
    assert b"\x1b)0" in shown(outputs)[:200]
    assert "incomplete" in str(of_type(outputs, Notice))
    assert written(outputs) == b"\x0c"
    session.received(LEAVE + ENTER + drawing("two"), 1.0)
    outputs = session.message(Repaint(), 1.0)
    assert not of_type(outputs, Notice)
    assert not written(outputs)


async def test_a_thousand_connections_push_out_no_session(port: ClassicBroker) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        terminal = await watching(port)
        await port.call(SCREEN + b"\x1b[2;1H" + b"x" * MIN_DRAWN)
        rank = await port.listed(terminal, f"{HOST}:?1")
        silent = [await port.call() for _ in range(1000)]
        pushed_out = await silent[0].rest()
        assert f"holds {MAX_CALLERS}".encode() in pushed_out
        await silent[1000 - MAX_CALLERS].rest()
        driver = await port.broker.seated(rank.key)
        await driver.expect_data()
        await port.call(SCREEN)
        await port.listed(terminal, f"{HOST}:?2")
        assert len(port.classic) <= MAX_CALLERS
        await asyncio.gather(*(stock.close() for stock in silent))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ranks_with_endless_texts_push_out_one_another_and_no_crashed_one() -> None:
    registry = Registry()
    crashed = registry.register(registration(99_999, pid=99_999), 0.0).rank
    registry.goodbye(crashed, 1, 0.0)
    registry.last_words(crashed, stack(0, 30), "ValueError: no")
    tracemalloc.start()
    for number in range(120):
        rank = registry.register(heavy(number), 1.0).rank
        registry.goodbye(rank, 0, 1.0)
        registry.last_words(rank, stack(number), "")
        registry.expire(1.0)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1.2 * limits.MAX_ENDED_BYTES
    assert registry.find(crashed.key) is crashed
    assert len(registry.keys()) > 30


def test_living_process_is_not_dead() -> None:
    assert not is_dead(os.getpid())


def test_process_is_dead_as_a_zombie_and_after() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(process.pid)
    assert is_dead(process.pid)


def refuse(pid: int, number: int) -> None:
    raise PermissionError


def test_a_process_that_proc_hides_is_not_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_dead(os.getpid(), tmp_path)
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert is_dead(process.pid, tmp_path)
    assert is_dead(2**70, tmp_path)
    monkeypatch.setattr(os, "kill", refuse)  # as for the process of another user
    assert not is_dead(process.pid, tmp_path)


@pytest.mark.parametrize(("state", "dead"), [("R", False), ("S", False), ("D", False), ("T", False), ("Z", True)])
def test_name_of_a_process_does_not_hide_its_state(tmp_path: Path, state: str, dead: bool) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (evil) Z ) R) {state} 1 7 7\n")
    assert is_dead(7, tmp_path) is dead


async def test_thousand_strangers_leave_the_broker_as_it_was(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
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
            _, writer = await asyncio.open_connection("127.0.0.1", broker.endpoint.port)
            writer.write(noise[number % len(noise)])
            await writer.drain()
            writer.transport.abort()

    for first in range(0, 1000, 100):
        await asyncio.gather(*(stranger(first + number) for number in range(100)))
    await broker.terminal()
    await broker.left(lambda hub: hub.connected == 1)
    assert broker.hub.connections.meters.failures > 0
    assert not any(record.exc_info or record.levelno > logging.INFO for record in caplog.records)
    assert not any("\n" in record.getMessage() for record in caplog.records)


async def test_flood_of_input_is_slowed_down_and_kept_whole(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_INPUT_PER_SECOND", 512 * limits.KIB)
    rank = await broker.rank()
    driver = await broker.seated(KEY)
    pieces = 96
    sent = [Input(session=1, stop=1, generation=1, offset=n * len(CHUNK), data=CHUNK) for n in range(pieces)]
    began = time.monotonic()

    async def type_all() -> None:
        for piece in sent:
            await driver.send(piece)

    flooding = asyncio.create_task(type_all())
    arrived = [await rank.expect_data() for _ in sent]
    await flooding
    assert arrived == sent
    # The input of one second is free, and the bytes of one read pass both before and after a pause.
    paced = pieces * len(CHUNK) - limits.MAX_INPUT_PER_SECOND - 2 * 256 * limits.KIB
    assert time.monotonic() - began >= paced / limits.MAX_INPUT_PER_SECOND
