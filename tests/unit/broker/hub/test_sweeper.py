"""The sweeper's work by the clock: probes, silent ranks, and processes that are gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dbg_broker.hub import sweeper
from dbg_broker.net.connection import PeerConnection
from dbg_broker.ranks.liveness import ProbeIntervals
from dbg_wire import limits
from dbg_wire.messages import (
    Change,
    Gone,
    Goodbye,
    Mode,
    Probe,
    Pulse,
    Refusal,
    RefusalCode,
    Report,
    Snapshot,
    Subscribe,
)
from dbg_wire.records.ranks import RankState
from tests.support.time_unit import seconds
from tests.unit.broker.peers import RUNNING, STOPPED, WHERE, Broker, attach, registration, running_broker

KEY = registration().identity.key
KERNEL = "boot/4026531836"


@pytest.fixture
async def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """Run a broker that probes and sweeps more often, on the same kernel as its ranks."""
    monkeypatch.setattr(sweeper, "ACK_CHECK_SECONDS", 0.05)
    intervals = ProbeIntervals(attended=seconds(0.05), idle=seconds(0.2))
    async with running_broker(tmp_path, intervals=intervals, kernel=KERNEL) as running:
        yield running


async def state(broker: Broker, wanted: RankState) -> None:
    """Subscribe, and wait for rank 0 to be in a state; the snapshot tells it where it is so already."""
    terminal = await broker.terminal("list@h")
    await terminal.say(Subscribe())
    known: dict[str, RankState] = {}
    while known.get(KEY) is not wanted:
        message = await terminal.next()
        if isinstance(message, Snapshot):
            known.update((rank.key, rank.state) for rank in message.ranks)
        elif isinstance(message, Change):
            known[message.rank.key] = message.rank.state


async def test_rank_that_leaves_probes_unanswered_is_unresponsive_and_comes_back(quick: Broker) -> None:
    rank = await quick.rank()
    driver = await quick.seated(KEY)
    silent = await driver.expect(Change, lambda change: change.rank.state is RankState.UNRESPONSIVE)
    assert silent.rank.where == WHERE
    await rank.say(Pulse(where=WHERE))
    back = await driver.expect(Change, lambda change: change.rank.state is not RankState.UNRESPONSIVE)
    assert back.rank.state is RankState.STOPPED
    assert back.rank.since < silent.rank.since


async def test_silent_rank_keeps_its_connection_and_is_not_probed_on_and_on(quick: Broker) -> None:
    rank = await quick.rank(report=RUNNING)
    await state(quick, RankState.UNRESPONSIVE)
    await rank.say(Report(report=STOPPED))
    assert (await state_now(quick)) is RankState.STOPPED
    for _ in range(limits.SILENT_PROBES):
        await rank.expect(Probe)


async def state_now(broker: Broker) -> RankState:
    terminal = await broker.seated(KEY, "now@h", Mode.WATCH)
    change = await terminal.expect(Change, lambda change: change.rank.state is not RankState.UNRESPONSIVE)
    return change.rank.state


async def test_rank_that_answers_stays_what_it_is_and_its_terminals_hear_where(quick: Broker) -> None:
    rank = await quick.rank(report=RUNNING)
    driver = await quick.seated(KEY)
    for _ in range(5):
        await rank.expect(Probe)
        await rank.say(Pulse(where=WHERE))
        assert (await driver.expect(Pulse)).where == WHERE
    assert quick.hub.ranks.registry.counts[RankState.RUNNING] == 1


async def test_connection_whose_host_vanished_is_ended(quick: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    await quick.rank()
    # One subscription sees both changes: a second one might come after the rank is lost.
    terminal = await quick.terminal("list@h")
    await terminal.say(Subscribe())
    await terminal.expect(Change, lambda change: change.rank.state is RankState.UNRESPONSIVE)
    monkeypatch.setattr(PeerConnection, "seconds_since_ack", lambda _: limits.CONNECTION_DEAD_SECONDS + 1)
    await terminal.expect(Change, lambda change: change.rank.state is RankState.LOST)


async def test_end_without_goodbye_is_lost(quick: Broker) -> None:
    rank = await quick.rank()
    driver = await quick.seated(KEY)
    await rank.cut()
    change = await driver.expect(Change, lambda change: change.rank.state is RankState.LOST)
    assert change.rank.exit is None


async def test_goodbye_is_exited_with_its_status(quick: Broker) -> None:
    rank = await quick.rank()
    driver = await quick.seated(KEY)
    await rank.say(Goodbye(exit=3))
    await rank.websocket.close()
    change = await driver.expect(Change, lambda change: change.rank.state is RankState.EXITED)
    assert change.rank.exit == 3


async def test_forgotten_rank_is_gone_for_lists_and_terminals(quick: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = await quick.rank()
    listing = await quick.terminal("list@h")
    await listing.say(Subscribe())
    driver = await quick.seated(KEY)
    await rank.cut()
    await driver.expect(Change, lambda change: change.rank.state is RankState.LOST)
    monkeypatch.setattr(limits, "ENDED_RANK_SECONDS", 0.0)
    assert (await listing.expect(Gone)).key == KEY
    assert (await driver.expect(Refusal)).code == RefusalCode.GONE
    await driver.say(attach(KEY))
    assert (await driver.expect(Refusal)).code == RefusalCode.NO_SUCH_RANK
