"""Terminals at ranks of other brokers: three brokers in this process, real sockets, buses in memory."""

from __future__ import annotations

import re

from dbg_broker.home.bearer import Role
from dbg_broker.net.websocket import CloseCode
from dbg_wire.codec import Input, Output
from dbg_wire.messages import (
    Action,
    Answers,
    Applied,
    Audience,
    Change,
    Kind,
    Mode,
    Question,
    Refusal,
    RefusalCode,
    Report,
    Resize,
    Seat,
    Snapshot,
    Subscribe,
    Take,
)
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.unit.broker.hub.cluster.several import Several, key
from tests.unit.broker.peers import RUNNING, Peer, attach


def keys_for(generation: int, data: bytes = b"n", offset: int = 0) -> Input:
    return Input(session=1, stop=1, generation=generation, offset=offset, data=data)


async def seated(several: Several, at: int = 1, number: int = 0, **options: object) -> tuple[Peer, Peer, Seat]:
    """Return a rank of the first broker, and a terminal of another one that sits there."""
    rank = await several.brokers[0].rank(number)
    await several.listed(number)
    terminal = await several.brokers[at].terminal()
    await terminal.say(attach(key(number)))
    seat = await terminal.expect(Seat)
    return rank, terminal, seat


async def test_a_rank_is_listed_by_all_brokers_and_so_is_its_end(several: Several) -> None:
    rank = await several.brokers[0].rank(0)
    terminal = await several.brokers[2].terminal()
    await terminal.say(Subscribe())
    while not (page := await terminal.expect(Snapshot)).last:
        pass
    if not page.ranks:
        listed = (await terminal.expect(Change)).rank
    else:
        (listed,) = page.ranks
    assert (listed.key, listed.state, listed.address) == (key(0), RankState.STOPPED, "gpu013:0")
    await rank.say(Report(report=RUNNING))
    assert (await terminal.expect(Change)).rank.state is RankState.RUNNING
    await rank.cut()
    assert (await terminal.expect(Change, lambda change: change.rank.state is not RankState.RUNNING)).rank.state is (
        RankState.LOST
    )


async def test_a_terminal_types_at_a_rank_of_another_broker(several: Several) -> None:
    rank, terminal, seat = await seated(several)
    assert seat.generation == 1
    assert seat.rank.key == key(0)
    audience = await rank.expect(Audience, lambda one: one.driven)
    assert (audience.viewers, audience.rows, audience.columns, audience.generation) == (1, 40, 120, 1)
    await terminal.send(keys_for(1))
    assert await rank.expect_data() == keys_for(1)
    await rank.send(Output(session=1, offset=0, data=b"drawn"))
    assert await terminal.expect_data() == Output(session=1, offset=0, data=b"drawn")
    await rank.say(Applied(generation=1, offset=1))
    assert (await terminal.expect(Applied)).offset == 1
    await terminal.say(Resize(rows=50, columns=100))
    assert (await rank.expect(Audience)).rows == 50
    await rank.say(Report(report=RUNNING))
    assert (await terminal.expect(Report)).report.state is RankState.RUNNING


async def test_a_watcher_of_another_broker_stays_one(several: Several) -> None:
    rank = await several.brokers[0].rank(0)
    await several.listed(0)
    watcher = await several.brokers[1].terminal("eye@login1", Role.WATCHER)
    await watcher.say(attach(key(0)))
    assert (await watcher.expect(Refusal)).code == RefusalCode.ROLE
    await watcher.say(attach(key(0), Mode.WATCH))
    assert (await watcher.expect(Seat)).generation is None
    await rank.expect(Audience, lambda one: one.viewers == 1 and not one.driven)
    await watcher.say(Take())
    assert (await watcher.expect(Refusal)).code == RefusalCode.ROLE


async def test_while_nats_is_gone_ranks_of_others_are_unresponsive_and_own_ones_go_on(
    approved: Approved, several: Several
) -> None:
    _, away, _ = await seated(several, at=1)
    own = await several.brokers[1].rank(1)
    here = await several.brokers[1].seated(key(1), "you@login1")
    several.nats.go()
    known = several.brokers[1].hub.ranks.registry.find(key(0))
    assert known is not None
    assert known.state is RankState.UNRESPONSIVE
    await here.send(keys_for(1))
    assert await own.expect_data() == keys_for(1)
    await here.say(attach(key(0)))
    approved((await here.expect(Refusal)).text)
    await here.say(Question(request=7, keys=(key(0),), action=Action.WHERE, seconds=5.0))
    (answer,) = (await here.expect(Answers)).answers
    assert answer.kind == Kind.LOST
    approved(re.sub(r"\d+", "3", answer.text), "answer")
    several.nats.come()
    assert (await away.closed())[0] == CloseCode.SHUTDOWN
    await several.listed(0, RankState.STOPPED)
