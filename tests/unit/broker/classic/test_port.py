"""The classic port over real sockets: stock debuggers, the terminals on them, and strangers that call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dbg_broker.classic import port as module
from dbg_broker.classic.port import MAX_CALLERS, MAX_HEAD, REFUSAL, StockPort, host_name
from dbg_broker.net.tcp import listen
from dbg_wire.codec import Input, Output
from dbg_wire.messages import (
    Action,
    Answers,
    Applied,
    Change,
    Detach,
    Kind,
    Mode,
    Question,
    Subscribe,
)
from dbg_wire.messages.declared import AnyInquiry
from dbg_wire.records.inspection import BreakpointChanges, CommandLine, Inspection, InspectionKind
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.support.answers import answers_of
from tests.unit.broker.peers import SECONDS, Broker, Peer, running_broker

SCREEN = b"\x1b[?1049h\x1b)0\x1b[?25l\x1b[H\x1b[1;1HPuDB here\x1b[K"
HOST = host_name("127.0.0.1")


class Stock:
    """The program's end of a classic connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def read(self, size: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(size), SECONDS)

    async def rest(self) -> bytes:
        """Return the bytes that come until the broker closes the connection."""
        try:
            return await asyncio.wait_for(self.reader.read(-1), SECONDS)
        except ConnectionResetError:
            return b""

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            return


class ClassicBroker:
    """A broker with a classic port, and the stock debuggers that called it."""

    def __init__(self, broker: Broker, classic: StockPort, port: int) -> None:
        self.broker = broker
        self.classic = classic
        self.port = port
        self.stock: list[Stock] = []

    async def call(self, first: bytes = b"") -> Stock:
        stock = Stock(*await asyncio.open_connection("127.0.0.1", self.port))
        self.stock.append(stock)
        stock.write(first)
        return stock

    async def listed(self, terminal: Peer, address: str, state: RankState = RankState.STOPPED) -> RankInfo:
        """Wait until a session is listed in a state, and return its entry."""

        def fits(change: Change) -> bool:
            return (change.rank.address, change.rank.state) == (address, state)

        return (await terminal.expect(Change, fits)).rank


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[ClassicBroker]:
    """Run a broker with a classic port."""
    async with running_broker(tmp_path) as broker:
        classic = StockPort(broker.parts.timers, broker.parts.ranks, broker.parts.from_ranks)
        listener = listen("127.0.0.1", 0)
        await classic.listen(listener)
        called = ClassicBroker(broker, classic, listener.getsockname()[1])
        yield called
        classic.stop()
        await asyncio.gather(*(stock.close() for stock in called.stock))


async def watching(port: ClassicBroker) -> Peer:
    terminal = await port.broker.terminal("list@login1")
    await terminal.send(Subscribe())
    return terminal


async def test_a_stock_debugger_is_listed_like_a_rank(port: ClassicBroker) -> None:
    terminal = await watching(port)
    first = await port.call(SCREEN)
    rank = await port.listed(terminal, f"{HOST}:?1")
    assert (rank.job, rank.pid, rank.reason, rank.engine, rank.where) == ("classic", 0, "breakpoint", "pudb", None)
    await port.call(SCREEN)
    await port.listed(terminal, f"{HOST}:?2")
    await first.close()
    gone = await port.listed(terminal, f"{HOST}:?1", RankState.EXITED)
    assert gone.exit is None
    await port.call(SCREEN)
    again = await port.listed(terminal, f"{HOST}:?1")
    assert again.key != rank.key


async def test_terminals_attach_and_detach_without_affecting_the_debugger(port: ClassicBroker) -> None:
    terminal = await watching(port)
    stock = await port.call(SCREEN)
    rank = await port.listed(terminal, f"{HOST}:?1")
    for generation in (1, 2):
        driver = await port.broker.seated(rank.key)
        output = await driver.expect_data()
        assert isinstance(output, Output)
        assert b"PuDB here" in output.data
        await driver.send(Input(session=1, stop=0, generation=generation, offset=0, data=b"n"))
        assert await stock.read(1) == b"n"
        assert await driver.expect(Applied) == Applied(generation=generation, offset=1)
        watcher = await port.broker.seated(rank.key, "you@login1", Mode.WATCH)
        output = await watcher.expect_data()
        assert isinstance(output, Output)
        assert b"PuDB here" in output.data
        await driver.cut()
        await watcher.send(Detach())
    assert port.broker.parts.ranks.registry.counts[RankState.STOPPED] == 1


@pytest.mark.parametrize(
    ("action", "inquiry"),
    [
        (Action.INSPECT, Inspection(sight=InspectionKind.PARTS)),
        (Action.BREAKPOINTS, BreakpointChanges()),
        (Action.EXEC, CommandLine(arguments=(b"true",))),
        (Action.NATIVE, None),
    ],
)
async def test_question_that_needs_an_agent_is_answered_with_a_reason(
    approved: Approved, port: ClassicBroker, action: Action, inquiry: AnyInquiry | None
) -> None:
    terminal = await watching(port)
    await port.call(SCREEN)
    rank = await port.listed(terminal, f"{HOST}:?1")
    await terminal.send(Question(request=1, keys=(rank.key,), action=action, seconds=5.0, inquiry=inquiry))
    (answer,) = answers_of(await terminal.expect(Answers))
    assert answer.kind == Kind.ERROR
    approved(answer.text)


# ---------------------------------------------------------------------------------------------------------- strangers


async def test_caller_without_a_debugger_is_refused_and_not_listed(
    port: ClassicBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    talker = await port.call(b"GET / HTTP/1.1\r\n" * (MAX_HEAD // 10))
    assert (await talker.rest()).startswith(REFUSAL)
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.05)
    for first in (b"", b"\x16\x03\x01\x02\x00"):
        stranger = await port.call(first)
        assert await stranger.rest() == REFUSAL
    assert port.broker.parts.ranks.registry.keys() == ()


async def test_one_caller_too_many_is_refused_and_the_others_stay(port: ClassicBroker) -> None:
    terminal = await watching(port)
    for number in range(1, MAX_CALLERS + 1):
        await port.call(SCREEN)
        await port.listed(terminal, f"{HOST}:?{number}")
    assert await (await port.call()).rest() == REFUSAL
    assert port.broker.parts.ranks.registry.counts[RankState.STOPPED] == MAX_CALLERS


async def test_flood_is_read_slowly_and_does_not_block_others(port: ClassicBroker) -> None:
    terminal = await watching(port)
    flood = await port.call(SCREEN)
    await port.listed(terminal, f"{HOST}:?1")
    flood.write(b"\x1b[1;1Hxxxxxxxxxxxxxxxxxxxxxxx" * 500_000)
    await port.call(SCREEN)
    await port.listed(terminal, f"{HOST}:?2")
