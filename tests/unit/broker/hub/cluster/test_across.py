"""What is noted, guarded and judged where, if terminal and rank are at two brokers."""

from __future__ import annotations

from typing import Any

import pytest

from dbg_broker.home.bearer import Role
from dbg_broker.net.websocket import CloseCode
from dbg_wire import messages
from dbg_wire.codec import Input
from dbg_wire.messages import (
    Action,
    Answer,
    Answers,
    Ask,
    Detach,
    Finding,
    Interrupt,
    Kind,
    Mode,
    Question,
    Refusal,
    RefusalCode,
    Report,
    Seat,
    Sender,
    Subscribe,
    Take,
    Welcome,
)
from dbg_wire.records.audit import Entry, What
from dbg_wire.records.beside import CommandEnd, command_line
from dbg_wire.records.ranks import RankState
from tests.unit.broker.hub.cluster.several import Several, key
from tests.unit.broker.peers import RUNNING, STOPPED, Broker, Peer, attach, registration

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


async def test_a_command_runs_beside_a_rank_of_another_broker(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    beside = await guard(several.brokers[0])
    terminal = await several.brokers[1].terminal()
    await terminal.say(exec_of(key(0)))
    ask = await beside.expect(Ask)
    assert ask.inquiry == COMMAND
    await beside.say(Answer(request=ask.request, kind=Kind.VALUE, text="exit status 0", rows=(CommandEnd(), "GPU 0")))
    (said,) = (await terminal.expect(Answers)).answers
    assert (said.kind, said.rows) == (Kind.VALUE, (CommandEnd(), "GPU 0"))


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


async def test_a_guard_that_comes_to_another_broker_than_its_ranks_dials_on(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    beside = await guard(several.brokers[1])
    assert (await beside.closed())[0] == CloseCode.SHUTDOWN


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


async def test_a_rank_that_only_its_guard_has_told_of_is_listed_by_all(several: Several) -> None:
    beside = await guard(several.brokers[0], kind=Finding.STUCK, registration=registration(0))
    await beside.expect(Welcome)
    await several.listed(0, RankState.UNRESPONSIVE)


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
    assert (first.kind, first.text) == (Kind.LOST, "no rank has this key")


async def test_a_step_of_a_rank_at_another_broker_is_listed_in_order(several: Several) -> None:
    rank = await several.brokers[0].rank(0)
    await several.listed(0)
    driver = await several.brokers[1].seated(key(0))
    watcher = await several.brokers[2].terminal()
    await watcher.say(Subscribe())
    for step in range(20):
        await driver.send(Input(session=1, stop=1, generation=1, offset=step, data=b"n"))
        await rank.expect_data()
        await rank.say(Report(report=RUNNING))
        await rank.say(Report(report=STOPPED))
        await driver.expect(Report, lambda one: one.report.state is RankState.STOPPED)
    await several.listed(0, RankState.STOPPED)
