"""Snapshots, and every change after them."""

from __future__ import annotations

import asyncio

import pytest

from dbg_broker.hub import terminals
from dbg_wire.messages import Change, Goodbye, Probe, Pulse, Report, Snapshot, Subscribe, Welcome
from dbg_wire.records.ranks import Place, RankInfo, RankState
from tests.unit.broker.peers import RUNNING, STOP, STOPPED, Broker, Peer, registration


async def snapshot(terminal: Peer) -> list[RankInfo]:
    ranks: list[RankInfo] = []
    while True:
        page = await terminal.expect(Snapshot)
        ranks.extend(page.ranks)
        if page.last:
            return ranks


async def test_empty_snapshot_is_a_snapshot(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.say(Subscribe(once=True))
    assert await snapshot(terminal) == []


async def test_snapshot_says_all_of_a_rank(broker: Broker) -> None:
    await broker.rank(3)
    terminal = await broker.terminal()
    await terminal.say(Subscribe(once=True))
    [rank] = await snapshot(terminal)
    assert (rank.address, rank.state, rank.reason, rank.engine) == ("gpu013:3", RankState.STOPPED, "breakpoint", "pudb")
    assert (rank.where, rank.world_size, rank.driver, rank.watchers) == (STOP.where, 8, None, 0)


async def test_a_step_that_is_in_a_collective_is_listed_with_it_until_it_ends(broker: Broker) -> None:
    rank = await broker.rank(3)
    terminal = await broker.terminal()
    await terminal.say(Subscribe())
    reducing = Place(file="/torch/distributed/distributed_c10d.py", line=1, function="all_reduce")
    # A pulse of a rank that doesn't step says nothing of that kind.
    await rank.say(Pulse(where=None, frames=(STOP.where, reducing)))
    await rank.say(Report(report=STOPPED.replace(state=RankState.RUNNING, stepping=True)))
    await rank.expect(Probe)
    assert (await terminal.expect(Change, lambda change: change.rank.state is RankState.RUNNING)).rank.waits_in == ""
    await rank.say(Pulse(where=reducing, frames=(STOP.where, reducing)))
    assert (await terminal.expect(Change)).rank.waits_in == "all_reduce"
    await rank.say(Report(report=STOPPED))
    change = await terminal.expect(Change)
    assert (change.rank.state, change.rank.waits_in) == (RankState.STOPPED, "")
    await rank.say(Report(report=STOPPED.replace(state=RankState.RUNNING, stepping=True)))
    assert (await terminal.expect(Change)).rank.waits_in == ""


async def test_once_is_once(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.say(Subscribe(once=True))
    await snapshot(terminal)
    await broker.rank(1)
    await terminal.say(Subscribe())
    # A change about the new rank would have come before this snapshot.
    assert isinstance(await terminal.next(), Snapshot)


async def test_nothing_is_lost_between_snapshot_and_changes(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks come, stop and go while terminals subscribe at every moment; all of them end up with the same list."""
    monkeypatch.setattr(terminals, "SNAPSHOT_RANKS", 3)
    count = 12

    async def life(number: int) -> None:
        rank = await broker.rank(number, report=RUNNING)
        for line in range(1, 4):
            await asyncio.sleep(0)
            stop = STOP.replace(number=line, where=STOP.where.replace(line=line))
            await rank.say(Report(report=STOPPED.replace(stop=stop)))
        if number % 2:
            await rank.say(Goodbye(exit=0))

    def is_final(rank: RankInfo) -> bool:
        return rank.state is RankState.EXITED if rank.rank % 2 else bool(rank.where and rank.where.line == 3)

    async def follow() -> None:
        terminal = await broker.terminal()
        await terminal.say(Subscribe())
        known = {rank.key: rank for rank in await snapshot(terminal)}
        while len(known) < count or not all(map(is_final, known.values())):
            change = await terminal.expect(Change)
            known[change.rank.key] = change.rank

    followers = []
    for number in range(count):
        followers.append(asyncio.create_task(follow()))
        await life(number)
    await asyncio.gather(*followers)


async def test_many_changes_of_a_rank_at_once_may_be_told_as_one(broker: Broker) -> None:
    rank = await broker.rank(report=RUNNING)
    terminal = await broker.terminal()
    await terminal.say(Subscribe())
    await snapshot(terminal)
    for line in range(1, 101):
        stop = STOP.replace(number=line, where=STOP.where.replace(line=line))
        await rank.say(Report(report=STOPPED.replace(stop=stop)))
    last = await terminal.expect(Change, lambda change: change.rank.where is not None and change.rank.where.line == 100)
    assert last.rank.state is RankState.STOPPED


async def test_large_snapshot_reaches_a_slow_reader_whole(broker: Broker) -> None:
    for number in range(300):
        said = registration(number, directory="/" + "d" * 4000)
        broker.hub.ranks.registry.register(said, 0.0)
    terminal = await broker.terminal(max_queue=1)
    terminal.websocket.transport.pause_reading()
    await terminal.say(Subscribe())
    later = await broker.rank(300)
    await later.say(Report(report=RUNNING))
    terminal.websocket.transport.resume_reading()
    ranks = await snapshot(terminal)
    assert [rank.rank for rank in ranks][:300] == list(range(300))
    await terminal.expect(Change, lambda change: change.rank.rank == 300)


async def test_children_get_numbers_and_are_told(broker: Broker) -> None:
    terminal = await broker.terminal()
    await terminal.say(Subscribe())
    await snapshot(terminal)
    child = await broker.rank(0, key="4711.0/child", pid=9000, ancestors=(8800,))
    assert (await terminal.expect(Change)).rank.address == "gpu013:0"
    await broker.rank(0)
    renamed = await terminal.expect(Change, lambda change: change.rank.key == "4711.0/child")
    assert renamed.rank.address == "gpu013:0.1"
    welcome = await child.expect(Welcome)
    assert (welcome.address, welcome.child) == ("gpu013:0.1", 1)
