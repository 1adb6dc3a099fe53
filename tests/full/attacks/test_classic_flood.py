"""Strangers at a classic port: their bytes delay no key of another session, and they keep no real debugger out."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import os
import re
import select
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from dbg_broker.classic.callers import MAX_CALLERS, MIN_DRAWN
from dbg_broker.classic.connection import MICROSECONDS_PER_SECOND, SLICE_BYTES
from dbg_broker.classic.screen import PAGE_SECONDS, Prints, ScreenSession
from dbg_wire.codec import Input, Output
from dbg_wire.messages import Audience, Change, Greet, Seat, Sender, Subscribe, Welcome
from dbg_wire.records.ranks import RankState
from dbg_wire.version import subprotocol
from tests.full.attacks.figures import PROMISED_MS, classes, longest_class
from tests.support.serving import SECONDS, Serve, Serving
from tests.support.time_unit import seconds
from tests.support.tokens import written_tokens
from tests.unit.broker.peers import Peer, attach, registration

SCREEN = b"\x1b[?1049h\x1b)0\x1b[?25l\x1b[H" + b"PuDB" * MIN_DRAWN
DEAR = {
    "moves": b"\x1b[H",
    "cells": b"\x1b[1;1Hx",
    "switches": b"\x1b[?1049h\x1b[?1049l",
    "prints": b"\x1b[?1049hx\x1b[?1049lprinted\n",
    "wide": "日é".encode(),
}
"""The bytes that take the broker most processor time for their length."""


class Port:
    """A broker process with a classic port."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        found = None
        while found is None:
            found = re.search(r"port=(\d+), term_size", serving.output.readline())
        self.number = int(found[1])

    def call(self, first: bytes) -> socket.socket:
        calling = socket.create_connection(("127.0.0.1", self.number), timeout=SECONDS)
        calling.sendall(first)
        return calling

    async def dial(self, path: str, role: str) -> Peer:
        websocket = await connect(
            self.serving.url + path,
            additional_headers={"Authorization": f"Bearer {written_tokens(self.serving.home)[role]}"},
            subprotocols=[Subprotocol(subprotocol())],
            compression=None,
        )
        return Peer(websocket, Sender.AGENT if path == "/agent" else Sender.CLIENT)

    async def terminal(self) -> Peer:
        terminal = await self.dial("/client", "driver")
        await terminal.say(Greet(minor=0, release="0", name="me"))
        await terminal.expect(Welcome)
        return terminal

    def key_waits(self) -> dict[float, int]:
        """Return the classes of the processor time for which keys have waited in the broker."""
        headers = {"Authorization": f"Bearer {written_tokens(self.serving.home)['driver']}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.serving.port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics", headers=headers)
            return classes(connection.getresponse().read().decode(), "key_wait_cpu_seconds")

    def used(self) -> float:
        """Return the processor time that the broker has used, in seconds."""
        fields = Path(f"/proc/{self.serving.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def port(serve: Serve) -> Port:
    return Port(serve("--listen", "127.0.0.1:0", "--insecure", "--classic", "127.0.0.1:0"))


class Flood(threading.Thread):
    """A thread that writes to a classic port over some connections as fast as the broker reads, until closed."""

    def __init__(self, port: Port, count: int) -> None:
        super().__init__()
        self._calling = [port.call(SCREEN) for _ in range(count)]
        self._told, self._end = socket.socketpair()
        self._data = dict(zip(self._calling, itertools.cycle(DEAR.values()), strict=False))
        for calling in self._calling:
            calling.setblocking(False)

    def run(self) -> None:
        """Write until the flood is closed."""
        while True:
            ended, writable, _ = select.select([self._told], self._calling, [])
            if ended:
                return
            for calling in writable:
                with contextlib.suppress(BlockingIOError):
                    calling.send(self._data[calling] * 1000)

    def close(self) -> None:
        """End the thread; a second call does nothing."""
        self._end.close()
        if self.is_alive():
            self.join()
        for opened in (self._told, *self._calling):
            opened.close()


@pytest.fixture
def flood(port: Port) -> Iterator[Flood]:
    flood = Flood(port, 10)
    yield flood
    flood.close()


async def type_keys(rank: Peer, terminal: Peer, generation: int) -> None:
    """Type some keys, each after the echo of the one before."""
    for offset in range(30):
        await terminal.send(Input(session=1, stop=0, generation=generation, offset=offset, data=b"k"))
        key = await rank.expect_data()
        await rank.send(Output(session=1, offset=offset, data=key.data))
        await terminal.expect_data()
        await asyncio.sleep(0.01)


async def test_a_flood_delays_no_key_of_another_session(port: Port, flood: Flood) -> None:
    rank = await port.dial("/agent", "rank")
    await rank.say(registration())
    await rank.expect(Welcome)
    terminal = await port.terminal()
    await terminal.say(attach(registration().identity.key))
    generation = (await terminal.expect(Seat)).generation
    assert generation is not None
    before = await asyncio.to_thread(port.key_waits)
    flood.start()
    # The flood first uses up the budget of one second; the share of the processor is measured after that.
    await asyncio.sleep(0.5)
    began, used = time.monotonic(), port.used()
    await type_keys(rank, terminal, generation)
    await asyncio.sleep(1.0)
    share = (port.used() - used) / (time.monotonic() - began)
    flood.close()
    assert 0 < longest_class(before, await asyncio.to_thread(port.key_waits)) <= PROMISED_MS
    assert share < 2 * MICROSECONDS_PER_SECOND / 1e6
    await rank.cut()
    await terminal.cut()


@pytest.mark.parametrize("fake", [b"", b"hello\n", b"\x1b[?1049h", b"\x1b[?1049h\x1b[Hx"])
async def test_fakes_keep_no_real_one_out(port: Port, fake: bytes) -> None:
    terminal = await port.terminal()
    await terminal.say(Subscribe())
    fakes = [port.call(fake) for _ in range(MAX_CALLERS)]
    real = [port.call(SCREEN) for _ in range(8)]
    # Fakes that show a screen may be listed too, so this does not count the real ones; below, none of them is closed.
    for _ in range(2 if fake.startswith(b"\x1b") else 8):
        await terminal.expect(Change, lambda change: change.rank.state is RankState.STOPPED)
    for calling in real:
        calling.settimeout(0.05)
        with pytest.raises(TimeoutError):
            calling.recv(100)
    await terminal.cut()
    for calling in (*fakes, *real):
        calling.close()


def audience(viewers: int) -> Audience:
    return Audience(viewers=viewers, generation=0, rows=24, columns=80, colors=256)


@pytest.mark.parametrize("dear", DEAR)
@pytest.mark.parametrize("viewers", [0, 1])
def test_no_slice_takes_long(dear: str, viewers: int) -> None:
    session = ScreenSession(0.0)
    session.received(SCREEN, 0.0)
    session.message(audience(viewers), 0.0)
    data = DEAR[dear] * (40 * SLICE_BYTES // len(DEAR[dear]))
    costs = []
    for number, start in enumerate(range(0, len(data), SLICE_BYTES)):
        began = time.thread_time()
        session.received(data[start : start + SLICE_BYTES], number * 0.01)
        costs.append(time.thread_time() - began)
    assert statistics.median(costs) < seconds(0.01)


def test_a_program_that_prints_between_steps_opens_a_page_now_and_then() -> None:
    session = ScreenSession(0.0)
    session.received(SCREEN + b"\x1b[?1049l" + b"line\n" * 200, 0.0)
    session.message(audience(1), 0.0)
    step = b"\x1b[?1049hx\x1b[?1049lprinted\n"
    shown = [session.received(step, PAGE_SECONDS * (1 + number / 100)) for number in range(50)]
    pages = [deed for outputs in shown for deed in outputs if isinstance(deed, Output) and b"line" in deed.data]
    assert len(pages) == 1


def test_prints_keep_the_last_characters_at_little_cost() -> None:
    prints, whole = Prints(), ""
    for number in range(20_000):
        prints.append(f"{number} ")
        whole += f"{number} "
    assert whole.endswith(prints.text())
    assert len(prints.text()) == 64 * 1024
    prints.append("one\n\ntwo and ")
    prints.append("three\n \n")
    assert prints.last_line() == "two and three"
