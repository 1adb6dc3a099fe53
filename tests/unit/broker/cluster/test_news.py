"""News between the ranks of two brokers: two real brokers, joined by a stand-in for NATS in this process."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import cast

import pytest

from dbg_broker.cluster import news
from dbg_broker.cluster.nats import Nats, OnMessage
from dbg_broker.cluster.news import RankNews
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.failures import FirstFailures
from dbg_broker.ranks.table import Watcher
from dbg_wire.messages import Arrival, Chosen, Goodbye, KeptRanks, RankReport, Report, Waiting
from dbg_wire.records.ranks import RankState
from tests.unit.broker.peers import RUNNING, SECONDS, STOP, STOPPED, Broker, registration, running_broker
from tests.unit.broker.ranks.test_failures import ended

SITE = "/home/me/train.py:41"
HELD = RankReport(state=RankState.HELD, stop=STOP.replace(reason="hold"), waits=Waiting(site=SITE, count=1, ranks=(0,)))
AT_SITE = STOPPED.replace(arrivals=(Arrival(site=SITE, arrived=1, completed=0),))
DONE = RUNNING.replace(arrivals=(Arrival(site=SITE, arrived=1, completed=1),))
CRASHED = STOPPED.replace(stop=STOP.replace(reason="crash"))
KEY = registration(0).identity.key


class Wires:
    """NATS as far as news go: what is published comes to all that have subscribed, a turn of the loop later."""

    def __init__(self) -> None:
        self.subscriptions: list[tuple[str, OnMessage]] = []
        self.is_cut = False

    def publish(self, subject: str, data: bytes) -> None:
        """Send something."""
        for pattern, on_message in self.subscriptions if not self.is_cut else ():
            if fnmatch(subject, pattern):
                asyncio.get_running_loop().call_soon(on_message, subject.rpartition(".")[2], data)

    async def subscribe(self, subject: str, on_message: OnMessage) -> None:
        """Have what comes for a subject taken."""
        self.subscriptions.append((subject, on_message))


class Two:
    """Two brokers and their desks."""

    def __init__(self, one: Broker, two: Broker) -> None:
        self.wires = Wires()
        self.one, self.two = one, two
        self.desks = [
            RankNews(broker.parts.ranks, broker.parts.timers, cast(Nats, self.wires), name)
            for broker, name in ((one, "one"), (two, "two"))
        ]
        for broker, desk in zip((one, two), self.desks, strict=True):
            broker.parts.ranks.add_watcher(desk)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    """Run two brokers that receive each other's news."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir(mode=0o700)
    async with running_broker(tmp_path / "one") as first, running_broker(tmp_path / "two") as second:
        both = Two(first, second)
        for desk in both.desks:
            await desk.listen()
        yield both


class Changes(Watcher):
    """Sets an event when the list of a broker has changed."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def line_changed(self, key: str) -> None:
        """Note that it has."""
        self.event.set()


async def until(broker: Broker, holds: Callable[[], bool]) -> None:
    """Return when something holds of the list of a broker."""
    changes = Changes()
    broker.parts.ranks.add_watcher(changes)
    async with asyncio.timeout(SECONDS):
        while not holds():
            changes.event.clear()
            await changes.event.wait()


def state_at(broker: Broker, key: str) -> RankState | None:
    rank = broker.parts.ranks.registry.find(key)
    return None if rank is None else rank.state


async def test_held_rank_receives_changes_of_a_rank_at_another_broker(two: Two) -> None:
    held = await two.two.rank(1, report=HELD)
    chosen = await two.one.rank(0, report=RUNNING)
    await chosen.send(Report(report=AT_SITE))
    (info,) = (await held.expect(Chosen, lambda message: message.ranks[0].arrived == 1)).ranks
    assert (info.rank, info.completed, info.state) == (0, 0, RankState.STOPPED)
    await chosen.send(Report(report=DONE))
    (info,) = (await held.expect(Chosen, lambda message: message.ranks[0].completed == 1)).ranks
    assert info.rank == 0


async def test_late_broker_receives_earlier_reports(two: Two) -> None:
    two.wires.is_cut = True
    await two.one.rank(0, report=AT_SITE)
    held = await two.two.rank(1, report=HELD)
    (info,) = (await held.expect(Chosen)).ranks
    assert info.arrived == 0
    two.wires.is_cut = False
    two.desks[1].announce_all(asks=True)
    await held.expect(Chosen, lambda message: message.ranks[0].arrived == 1)


async def test_rank_is_notified_of_a_crash_at_another_broker_and_its_end(two: Two) -> None:
    other = await two.two.rank(1, report=RUNNING)
    crashed = await two.one.rank(0, report=RUNNING)
    await crashed.send(Report(report=CRASHED))
    assert (await other.expect(KeptRanks)).ranks == (0,)
    await crashed.send(Goodbye(exit=1))
    assert (await other.expect(KeptRanks)).ranks == ()


async def test_ranks_of_a_lost_broker_are_lost_for_waiting_ranks(two: Two) -> None:
    held = await two.two.rank(1, report=HELD)
    await two.one.rank(0, report=AT_SITE)
    await held.expect(Chosen, lambda message: message.ranks[0].arrived == 1)
    deque(two.desks[1].losing("one"), maxlen=0)
    await held.expect(Chosen, lambda message: message.ranks[0].state is RankState.LOST)


async def test_broker_forgets_a_rank_that_moved_to_another_broker(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "FORGET_SECONDS", 0.1)
    left = await two.one.rank(0, epoch=1)
    await two.two.rank(0, epoch=2)
    assert (await left.closed())[0] == CloseCode.REPLACED
    assert state_at(two.two, KEY) is RankState.STOPPED
    await until(two.one, lambda: state_at(two.one, KEY) is None)


async def test_ended_rank_is_handed_over_to_another_broker(two: Two) -> None:
    rank = await two.one.rank(0)
    await rank.send(Goodbye(exit=3, error="ValueError: bad batch"))
    await until(two.one, lambda: state_at(two.one, KEY) is RankState.EXITED)
    before = two.one.parts.ranks.registry.find(KEY)
    two.desks[0].hand_over("two")
    await until(two.two, lambda: state_at(two.two, KEY) is RankState.EXITED)
    after = two.two.parts.ranks.registry.find(KEY)
    assert before is not None
    assert after is not None
    assert (after.end.exit, after.end.error, after.identity) == (3, "ValueError: bad batch", before.identity)
    assert after.is_same_process("") == before.is_same_process("")
    assert after.end.at == pytest.approx(before.end.at, abs=SECONDS)


def test_a_failure_at_another_broker_explains_why_a_rank_was_killed() -> None:
    failures, killed = FirstFailures(), ended(1, 5.0, -signal.SIGKILL)
    assert failures.note(killed, lambda: [killed]) == []
    explained = failures.hear(killed.run, KEY, 4.0, "rank 0 had exited with status 3", lambda: [killed])
    assert explained == [killed]
    assert "rank 0 had exited with status 3" in killed.end.cause
    assert failures.hear(killed.run, "another", 4.5, "rank 2 had exited with status 1", lambda: [killed]) == []


async def test_unreadable_news_is_ignored(two: Two, caplog: pytest.LogCaptureFixture) -> None:
    two.wires.publish("dbg_broker.to.all.three", b"\xff")
    held = await two.two.rank(1, report=HELD)
    await two.one.rank(0, report=AT_SITE)
    await held.expect(Chosen, lambda message: message.ranks[0].arrived == 1)
    assert "three" in caplog.text
