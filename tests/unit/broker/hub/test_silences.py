"""Silent hosts and terminals: the lists say so soon, and a silent terminal loses its seat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dbg_broker.hub import sweeper
from dbg_broker.net.connection import PeerConnection
from dbg_wire import limits
from dbg_wire.messages import Change, Probe, Pulse, Seat, Subscribe
from dbg_wire.records.ranks import RankState, SeatCounts
from tests.support.time_unit import seconds
from tests.unit.broker.peers import WHERE, Broker, Peer, attach, registration, running_broker

KEY = registration().identity.key


@pytest.fixture
async def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """Run a broker whose times of silence are a twentieth of the real ones, in the tests' unit of time."""
    monkeypatch.setattr(sweeper, "LOOK_SECONDS", seconds(0.05))
    monkeypatch.setattr(sweeper, "PING_SECONDS", seconds(0.125))
    monkeypatch.setattr(sweeper, "SEAT_SECONDS", seconds(1.25))
    monkeypatch.setattr(limits, "SILENT_SECONDS", seconds(0.225))
    monkeypatch.setattr(PeerConnection, "seconds_since_ack", lambda _: 0.0)
    async with running_broker(tmp_path) as running:
        yield running


async def listing(broker: Broker) -> Peer:
    terminal = await broker.terminal("list@h")
    await terminal.say(Subscribe())
    return terminal


async def test_driver_who_vanished_is_listed_as_silent_and_then_loses_the_seat(broker: Broker) -> None:
    await broker.rank()
    driver = await broker.seated(KEY, "gone@h")
    watcher = await broker.seated(KEY, "here@h")
    driver.websocket.transport.pause_reading()
    silent = await watcher.expect(Change, lambda change: change.rank.driver_silent)
    assert silent.rank.driver == "gone@h"
    freed = await watcher.expect(Seat, lambda seat: seat.driver is None)
    assert freed.watchers == 1
    await watcher.say(attach(KEY))
    assert (await watcher.expect(Seat, lambda seat: seat.generation is not None)).driver == "here@h"


async def test_driver_who_is_heard_again_is_no_longer_silent(broker: Broker) -> None:
    await broker.rank()
    driver = await broker.seated(KEY, "slow@h")
    terminal = await listing(broker)
    driver.websocket.transport.pause_reading()
    await terminal.expect(Change, lambda change: change.rank.driver_silent)
    driver.websocket.transport.resume_reading()
    heard = await terminal.expect(Change, lambda change: not change.rank.driver_silent)
    assert heard.rank.driver == "slow@h"


async def test_terminal_that_answers_pings_and_says_nothing_keeps_its_seat(broker: Broker) -> None:
    await broker.rank()
    await broker.seated(KEY, "quiet@h")
    passed = asyncio.Event()
    broker.hub.timers.schedule(2 * sweeper.SEAT_SECONDS, passed.set)
    await passed.wait()
    assert broker.hub.terminals.seats.counts_at(KEY) == SeatCounts(driver="quiet@h")


async def test_rank_whose_host_is_silent_is_unresponsive_until_it_answers(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = await broker.rank()
    terminal = await listing(broker)
    monkeypatch.setattr(PeerConnection, "seconds_since_ack", lambda _: 1.0)
    await terminal.expect(Change, lambda change: change.rank.state is RankState.UNRESPONSIVE)
    monkeypatch.setattr(PeerConnection, "seconds_since_ack", lambda _: 0.0)
    await rank.expect(Probe)
    await rank.say(Pulse(where=WHERE))
    await terminal.expect(Change, lambda change: change.rank.state is RankState.STOPPED)


async def test_ranks_of_a_host_are_looked_at_by_one_look_for_all_and_told_within_six_seconds_of_a_cut(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SILENT_SECONDS", 4.5)
    keys = [registration(number).identity.key for number in range(8)]
    ranks = [await broker.rank(number) for number in range(len(keys))]
    now = cut = broker.hub.timers.clock() + 1000.0
    looks = 0

    def since_ack(_: PeerConnection) -> float:
        nonlocal looks
        looks += 1
        return max(0.0, now - cut)

    monkeypatch.setattr(PeerConnection, "seconds_since_ack", since_ack)
    watch, cut = sweeper.Sweeper(broker.hub), now + 60.0
    while now < cut:
        watch._look(now)
        now += 0.25
    assert looks <= 60 / 4.5 + 1
    assert not broker.hub.ranks.liveness.silent
    while now < cut + 6.0:
        watch._look(now)
        now += 0.25
    assert broker.hub.ranks.liveness.silent == set(keys)
    assert len(ranks) == len(keys)


async def test_newer_connection_of_a_driver_takes_over_with_the_same_number(broker: Broker) -> None:
    await broker.rank()
    old = await broker.terminal("me@h")
    await old.say(attach(KEY))
    generation = (await old.expect(Seat)).generation
    assert generation is not None
    new = await broker.terminal("me@h")
    await new.say(attach(KEY, resume=generation))
    assert (await new.expect(Seat)).generation == generation
    assert (await old.expect(Seat)).generation is None


async def test_newer_connection_of_a_rank_takes_over_and_its_driver_stays(broker: Broker) -> None:
    old = await broker.rank()
    driver = await broker.seated(KEY)
    before = broker.hub.terminals.seats.audience(KEY, 0).generation
    new = await broker.rank()
    assert (await old.closed())[0] == 4000
    seat = await driver.expect(Seat)
    assert (seat.generation, seat.rank.state) == (before, RankState.STOPPED)
    await new.say(Pulse(where=WHERE))
    await driver.expect(Pulse)
