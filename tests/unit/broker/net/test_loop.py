"""Work in slices, and peers that send faster than they may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from websockets.frames import Frame, Opcode

from dbg_broker.net.outbox import SLICE_SECONDS, TURN_SECONDS, Turns
from dbg_broker.relay.weights import RATES
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.messages import Goodbye, Refusal, Sender
from dbg_wire.records.ranks import RankState
from tests.unit.broker.peers import RUNNING, Broker, Peer

COST = SLICE_SECONDS / 4
"""Seconds that a step takes, in the simulated time of these tests."""

SHORT = Frame(Opcode.TEXT, b'{"type":"x"}').serialize(mask=True)
"""The shortest message of a type that no broker knows."""


class Loop:
    """An event loop with simulated time; a scheduled call runs in the next turn."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[str] = []
        self._next: list[Callable[[], None]] = []
        self.turns = Turns(Timers(lambda: self.now, lambda _, call: self._next.append(call), spent=lambda: self.now))

    @property
    def is_called(self) -> bool:
        return bool(self._next)

    def turn(self) -> float:
        """Run the calls that are due, and return how many seconds they took."""
        began = self.now
        due, self._next = self._next, []
        for call in due:
            call()
        return self.now - began

    def work(self, name: str, steps: int) -> Iterator[None]:
        """Yield after each of some steps."""
        for _ in range(steps):
            self.done.append(name)
            self.now += COST
            yield


def test_work_takes_turns_and_leaves_time_for_keys() -> None:
    loop = Loop()
    for number in range(200):
        loop.turns.start(loop.work(f"work {number}", 1000))
    assert loop.turn() < 2 * TURN_SECONDS
    assert loop.done[:4] == ["work 0"] * 4
    assert {"work 0", "work 1", "work 2"} <= set(loop.done)
    assert len(loop.turns) == 200


def test_work_begins_at_once_if_idle_and_an_error_ends_only_that_work() -> None:
    loop = Loop()

    def broken() -> Iterator[None]:
        yield
        raise RuntimeError("a bug")

    loop.turns.start(broken())
    loop.turns.start(loop.work("short", 1))
    assert loop.done == ["short"]
    loop.turns.start(loop.work("long", 8))
    loop.turn()
    assert loop.done[1:] == ["long"] * 8
    assert not loop.is_called


async def test_rank_that_floods_is_read_at_the_allowed_rate(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RATES, Sender.AGENT, 256 * limits.KIB)
    flooding = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    began = asyncio.get_running_loop().time()
    flooding.websocket.transport.write(SHORT * 1000)
    # Each message counts 2 KiB. The messages of the first second are free, and one piece is read before each pause.
    for _ in range(1000):
        await flooding.expect(Refusal)
        if asyncio.get_running_loop().time() - began > 1:
            break
    else:
        pytest.fail("all was read at once")


async def test_message_before_the_end_of_a_connection_is_read(broker: Broker) -> None:
    rank = await broker.rank(report=RUNNING)
    pings = [Frame(Opcode.PING, b"").serialize(mask=True)] * (limits.MAX_REPORTED_PER_SECOND // 2048 + 10)
    rank.websocket.transport.write(b"".join(pings))
    await rank.send(Goodbye(exit=3))
    rank.websocket.transport.close()
    await broker.left(lambda parts: not parts.ranks.links)
    (listed,) = broker.parts.ranks.registry.ranks()
    assert (listed.state, listed.end.exit) == (RankState.EXITED, 3)
