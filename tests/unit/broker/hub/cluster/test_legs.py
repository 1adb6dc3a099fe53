"""Terminals at ranks of other brokers: three brokers in this process, real sockets, buses in memory."""

from __future__ import annotations

import re

from dbg_broker.home.bearer import Role
from dbg_broker.net.websocket import CloseCode
from dbg_wire.codec import Input, Output
from dbg_wire.messages import (
    Action,
    Answer,
    Answers,
    Applied,
    Ask,
    Audience,
    Change,
    Discarded,
    Interrupt,
    Kind,
    Logged,
    Mode,
    Notice,
    Question,
    Refusal,
    RefusalCode,
    Replay,
    Replied,
    Reply,
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
from tests.unit.broker.peers import RUNNING, STOPPED, Peer, attach


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


async def test_the_keyboard_goes_from_a_terminal_of_one_broker_to_one_of_another(several: Several) -> None:
    rank, first, _ = await seated(several, at=1)
    second = await several.brokers[2].terminal("you@login2")
    await second.say(attach(key(0)))
    looks = await second.expect(Seat)
    assert (looks.generation, looks.driver) == (None, "me@login1")
    await second.say(Take())
    assert (await second.expect(Seat)).generation == 2
    lost = await first.expect(Seat)
    assert (lost.generation, lost.driver) == (None, "you@login2")
    await first.send(keys_for(1))
    assert (await first.expect(Refusal)).code == RefusalCode.NOT_DRIVING
    await second.send(keys_for(1))
    assert (await second.expect(Discarded)).count == 1
    await second.send(keys_for(2))
    assert await rank.expect_data() == keys_for(2)


async def test_lines_go_to_pdb_of_another_broker_and_its_log_comes_back(several: Several) -> None:
    rank, terminal, _ = await seated(several)
    await terminal.say(Reply(prompt=3, generation=1, text="p loss"))
    assert (await rank.expect(Reply)).text == "p loss"
    await rank.say(Replied(prompt=3, taken=True))
    assert (await terminal.expect(Replied)).taken
    await terminal.say(Replay(session=1, offset=10))
    assert (await rank.expect(Replay)).offset == 10
    await terminal.say(Interrupt(generation=1))
    await rank.expect(Interrupt)


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


async def test_a_terminal_that_ends_frees_its_seat_at_another_broker(several: Several) -> None:
    rank, terminal, _ = await seated(several)
    await rank.expect(Audience, lambda one: one.viewers == 1)
    await terminal.cut()
    await rank.expect(Audience, lambda one: one.viewers == 0)
    await several.until(lambda: not several.clusters[0].hosted and not several.clusters[1].legs)
    assert several.brokers[0].hub.terminals.connected == 0


async def test_a_rank_that_comes_to_another_broker_has_its_terminals_come_anew(several: Several) -> None:
    rank, terminal, _ = await seated(several, at=1)
    await rank.cut()
    await several.listed(0, RankState.LOST)
    again = await several.brokers[2].rank(0, report=STOPPED.replace(generation=1))
    assert (await terminal.closed())[0] == CloseCode.SHUTDOWN
    await several.until(lambda: several.clusters[1].legs._ways == {})
    second = await several.brokers[1].terminal()
    await second.say(attach(key(0), resume=1))
    assert (await second.expect(Seat)).generation == 1
    await second.send(keys_for(1))
    assert await again.expect_data() == keys_for(1)


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


async def test_one_question_goes_to_the_ranks_of_three_brokers(several: Several) -> None:
    ranks = [await several.brokers[number].rank(number) for number in range(3)]
    for number in range(3):
        await several.listed(number)
    terminal = await several.brokers[1].terminal()
    keys = tuple(key(number) for number in range(3))
    await terminal.say(Question(request=7, keys=(*keys, "none/x"), action=Action.EVAL, seconds=30.0, text="loss"))
    for number, rank in enumerate(ranks):
        ask = await rank.expect(Ask)
        assert (ask.text, ask.action) == ("loss", Action.EVAL)
        await rank.say(Answer(request=ask.request, kind=Kind.VALUE, text=f"0.{number}"))
    answers = (await terminal.expect(Answers)).answers
    assert [(one.key, one.text) for one in answers[:3]] == [(key(number), f"0.{number}") for number in range(3)]
    assert answers[3].kind is Kind.LOST


async def test_what_others_do_at_a_rank_is_told_to_terminals_of_all_brokers(several: Several) -> None:
    rank, onlooker, _ = await seated(several, at=1)
    other = await several.brokers[2].terminal("you@login2")
    await other.say(Question(request=7, keys=(key(0),), action=Action.CONTINUE, seconds=5.0))
    ask = await rank.expect(Ask)
    await rank.say(Answer(request=ask.request, kind=Kind.VALUE, text="goes on"))
    assert "you@login2" in (await onlooker.expect(Notice)).text
    await onlooker.say(Question(request=8, keys=(key(0),), action=Action.EVAL, seconds=5.0, text="x"))
    ask = await rank.expect(Ask)
    await rank.say(Answer(request=ask.request, kind=Kind.VALUE, text="1"))
    while not isinstance(message := await onlooker.next(), Answers):
        assert not isinstance(message, Notice)


async def test_texts_of_log_points_reach_the_clients_of_all_brokers(several: Several) -> None:
    rank = await several.brokers[0].rank(0)
    await several.listed(0)
    listener = await several.brokers[1].terminal("ide@login1")
    await listener.say(Subscribe(logs=True))
    await several.until(lambda: several.clusters[0].members.listening() == ["two"])
    await rank.say(Notice(text="loss=0.5", is_log=True))
    logged = await listener.expect(Logged)
    assert (logged.key, logged.text, logged.left_out) == (key(0), "loss=0.5", 0)
    await listener.say(attach(key(0)))
    await listener.expect(Seat)
    await rank.say(Notice(text="once", is_log=True))
    await rank.say(Report(report=RUNNING))
    texts = []
    while not isinstance(message := await listener.next(), Report):
        texts += [message.text] if isinstance(message, (Notice, Logged)) else []
    assert texts == ["once"]
