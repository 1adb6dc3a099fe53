"""Which brokers there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbg_broker.home.bearer import Role
from dbg_broker.hub.cluster.cluster import Cluster
from dbg_broker.hub.cluster.members import GONE_SECONDS, Members
from dbg_broker.net.bus.buckets import BucketName
from dbg_broker.timers import Timers
from dbg_wire import messages
from dbg_wire.finding.endpoint import Endpoint
from dbg_wire.messages import (
    Action,
    Answer,
    Answers,
    Ask,
    BrokerAddress,
    Detach,
    Finding,
    Interrupt,
    Kind,
    Mode,
    Question,
    Refusal,
    RefusalCode,
    Seat,
    Sender,
    Take,
    Welcome,
)
from dbg_wire.records.audit import Entry, What
from dbg_wire.records.beside import command_line
from dbg_wire.records.ranks import RankState
from tests.support.memory_bus import MemoryNats
from tests.unit.broker.hub.cluster.brokers import joined, new_cluster, presence, settled
from tests.unit.broker.hub.cluster.several import Several, key, several_brokers
from tests.unit.broker.peers import Broker, Peer, attach


class Clock:
    """Members of a broker, with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told: list[str] = []
        timers = Timers(clock=lambda: self.now, schedule=lambda seconds, call: None)
        came, gone = (lambda name, greets: self.told.append(f"+{name}")), (lambda name: self.told.append(f"-{name}"))
        self.members = Members(presence("me"), timers, came, gone)


def test_a_broker_comes_with_its_first_heartbeat_and_is_gone_some_seconds_after_its_last() -> None:
    clock = Clock()
    clock.members.saw(presence("other"))
    clock.now += GONE_SECONDS - 0.5
    clock.members.saw(presence("other"))
    clock.now += GONE_SECONDS - 0.5
    clock.members.poll(clock.now)
    assert clock.told == ["+other"]
    assert clock.members.find("other") == presence("other")
    clock.now += 0.5
    clock.members.poll(clock.now)
    assert clock.told == ["+other", "-other"]
    assert clock.members.find("other") is None
    assert clock.members.others() == ()


def test_one_of_the_brokers_that_tell_events_tells_those_of_a_run() -> None:
    names = ("a", "b", "c", "d")
    told = {}
    for name in names:
        own = presence(name).replace(tells=name != "d")
        members = Members(own, Clock().members._timers, lambda _, greets: None, lambda _: None)
        for other in names:
            members.saw(presence(other).replace(tells=other != "d"))
        told[name] = {run for run in map(str, range(30)) if members.speaks_for(run)}
    assert not told["d"]
    assert all(told[name] for name in "abc")
    assert sorted(run for runs in told.values() for run in runs) == sorted(map(str, range(30)))


COMMAND = command_line(["nvidia-smi", "-L"])


def exec_of(*keys: str, **changes: Any) -> Question:
    told = {"request": 7, "keys": keys, "action": Action.EXEC, "seconds": 60.0, "inquiry": COMMAND}
    return Question(**{**told, **changes})


async def guard(broker: Broker, **changes: Any) -> Peer:
    peer = Peer(await broker.dial("/agent", broker.tokens.rank), Sender.AGENT)
    await peer.say(messages.Testimony(**{"minor": 0, "key": key(0), "kind": Finding.CALLED, **changes}))
    return peer


async def test_each_thing_is_noted_once_with_its_broker(several: Several) -> None:
    noted: list[Entry] = []
    for broker in several.brokers:
        broker.hub.journal.audit = noted.append
    rank = await several.brokers[0].rank(0)
    await several.listed(0)
    driver = await several.brokers[1].seated(key(0))
    await driver.say(Question(request=1, keys=(key(0),), action=Action.WHERE, seconds=9.0, text="why"))
    ask = await rank.expect(Ask)
    await rank.say(Answer(request=ask.request, kind=Kind.VALUE, text=""))
    await driver.expect(Answers)
    await driver.say(Interrupt(generation=1))
    await rank.expect(Interrupt)
    await driver.say(Take())
    await driver.expect(Seat)
    await driver.say(Detach())
    await driver.say(attach(key(0), Mode.WATCH))
    await driver.expect(Seat)
    await driver.cut()
    await several.until(lambda: noted[-1].what is What.LEAVE)
    there = ("me@login1", "4711.0", "gpu013:0")
    assert [(entry.broker, entry.what, entry.action, entry.terminal, entry.job, entry.ranks) for entry in noted] == [
        ("two", What.CONNECT, "", "me@login1", "", ""),
        ("one", What.ATTACH, "drive", *there),
        ("two", What.QUESTION, "where", *there),
        ("one", What.INTERRUPT, "", *there),
        ("one", What.TAKE, "", *there),
        ("one", What.DETACH, "", *there),
        ("one", What.ATTACH, "watch", *there),
        ("two", What.LEAVE, "", *there),
    ]
    assert {entry.address.partition(":")[0] for entry in noted} == {"127.0.0.1"}


@pytest.mark.parametrize("how", ["leaves", "withdraws", "deadline"])
async def test_a_command_at_another_broker_ends_when_nobody_waits_for_it(several: Several, how: str) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    beside = await guard(several.brokers[0])
    terminal = await several.brokers[1].terminal()
    await terminal.say(exec_of(key(0), seconds=0.3 if how == "deadline" else 60.0))
    ask = await beside.expect(Ask)
    if how == "leaves":
        await terminal.cut()
    elif how == "withdraws":
        await terminal.say(exec_of(key(0), request=8, text="", withdrawn=True))
        assert (await terminal.expect(Answers)).answers[0].kind is Kind.SILENT
        assert (await terminal.expect(Answers)).answers[0].text == "ended"
    ended = await beside.expect(Ask)
    assert (ended.request, ended.withdrawn) == (ask.request, True)


async def test_the_guard_of_an_orphan_tells_all_brokers_how_it_ended(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    several.kill(0)
    left = several.brokers[1:]
    beside = await guard(left[0], kind=Finding.ENDED, signal=9)
    await beside.expect(Welcome)

    def is_told(broker: Broker) -> bool:
        rank = broker.hub.ranks.registry.find(key(0))
        return rank is not None and rank.state is RankState.EXITED and rank.end.exit == -9

    await several.until(lambda: all(map(is_told, left)))


async def test_a_token_for_one_job_sees_no_rank_of_another_broker_that_is_of_another_job(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.brokers[0].rank(1, key="other/1", job="other")
    await several.listed(0)
    terminal = await several.brokers[1].terminal()
    (link,) = several.brokers[1].hub.terminals.links.values()
    link.bearer, link.told = type(link.bearer)(role=Role.DRIVER, job="4711.0"), set()
    await several.until(lambda: several.brokers[1].hub.ranks.registry.find("other/1") is not None)
    await terminal.say(attach("other/1"))
    assert (await terminal.expect(Refusal)).code == RefusalCode.NO_SUCH_RANK
    await terminal.say(Question(request=7, keys=("other/1", key(0)), action=Action.CONTINUE, seconds=0.3))
    first, _ = (await terminal.expect(Answers)).answers
    assert first.kind == Kind.LOST


PINS = ("sha256:" + "0" * 64,)


async def test_who_is_connected_is_welcomed_again_with_all_brokers_when_one_comes_or_goes(tmp_path: Path) -> None:
    async with several_brokers(tmp_path, ("one", "two")) as several:
        broker, cluster = several.brokers[0], several.clusters[0]
        written: list[tuple[Endpoint, ...]] = []
        cluster.addresses.write = written.append
        rank, terminal = await broker.rank(), await broker.terminal()
        third = presence("three").replace(fingerprints=PINS)
        cluster.members.saw(third)
        own, other = cluster.members.own, several.clusters[1].members.own
        everybody = tuple(BrokerAddress(url=one.url, fingerprints=one.fingerprints) for one in (own, third, other))
        for peer in (rank, terminal):
            welcome = await peer.expect(Welcome, lambda said: len(said.brokers) == 3)
            assert welcome.brokers == everybody
        assert {endpoint.url: endpoint.fingerprints for endpoint in written[-1]} == {third.url: PINS}
        cluster.members.left("three")
        welcome = await rank.expect(Welcome, lambda said: len(said.brokers) == 2)
        assert welcome.address == "gpu013:0"


async def test_brokers_come_to_know_each_other_and_one_that_ends_is_gone_at_once() -> None:
    nats = MemoryNats()
    one, two, three = await joined(nats, "one", "two", "three")
    assert [member.name for member in one.members.others()] == ["three", "two"]
    assert [member.name for member in three.members.others()] == ["one", "two"]
    assert sorted(nats.buses["two"].peers) == ["one", "three"]
    await two.end()
    await settled()
    assert [member.name for member in one.members.others()] == ["three"]
    assert sorted(nats.buses["one"].peers) == ["three"]
    assert "two" not in nats.entries[BucketName.BROKERS]


async def test_a_broker_of_another_site_is_nobody() -> None:
    nats = MemoryNats()
    one, two = new_cluster(nats, "one"), new_cluster(nats, "two")
    two.members.own = two.members.own.replace(site="other")
    await one.begin()
    await two.begin()
    await settled()
    assert (len(one.members), len(two.members)) == (0, 0)


async def two_of_which_the_first_has_a_clock() -> tuple[MemoryNats, list[float], Cluster]:
    nats, now = MemoryNats(), [100.0]
    one, two = new_cluster(nats, "one", lambda: now[0]), new_cluster(nats, "two")
    for cluster in (one, two):
        await cluster.begin()
    await settled()
    return nats, now, one


async def test_nobody_is_gone_while_nats_is_gone() -> None:
    nats, now, one = await two_of_which_the_first_has_a_clock()
    nats.go()
    for _ in range(30):
        now[0] += 1.0
        one.sweep(now[0])
    assert len(one.members) == 1
    nats.come()
    one.sweep(now[0])
    await settled()
    assert len(one.members) == 1
    assert set(nats.entries[BucketName.BROKERS]) == {"one", "two"}
