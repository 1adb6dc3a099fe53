"""Answers of other brokers to questions of this one's terminals."""

from __future__ import annotations

import pytest

from dbg_broker.home.bearer import Role
from dbg_broker.hub.cluster.messages import (
    CloseLeg,
    LegSaid,
    OpenLeg,
    decode,
)
from dbg_broker.hub.cluster.remote_answers import take
from dbg_broker.net.websocket import CloseCode, pack_message
from dbg_broker.ranks.registry import ITS_BROKER_IS_GONE
from dbg_wire.errors import PeerError
from dbg_wire.messages import (
    Action,
    Answer,
    Answers,
    Ask,
    Greet,
    Kind,
    Mode,
    Question,
    RankAnswer,
)
from dbg_wire.records.ranks import Place
from tests.conftest import Approved
from tests.unit.broker.hub.cluster.several import Several, key


def value(number: int, text: str = "1") -> RankAnswer:
    return RankAnswer(key=key(number), kind=Kind.VALUE, text=text)


async def test_a_tree_over_several_brokers_is_folded_with_the_ages_of_all_ranks(several: Several) -> None:
    ranks = [await broker.rank(number) for number, broker in enumerate(several.brokers)]
    ranks.append(await several.brokers[1].rank(len(ranks)))
    for number in range(len(ranks)):
        await several.listed(number)
    terminal = await several.brokers[0].terminal()
    keys = tuple(key(number) for number in range(len(ranks)))
    await terminal.say(Question(request=7, keys=keys, action=Action.WHERE, seconds=9.0, fold=True))
    frames = (Place(file="/train.py", line=7, function="step"),)
    for number, rank in enumerate(ranks):
        ask = await rank.expect(Ask)
        await rank.say(Answer(request=ask.request, kind=Kind.VALUE, text="", frames=frames, age=number + 0.5))
    (answer,) = (await terminal.expect(Answers)).answers
    assert {one.key: one.age for one in answer.each()} == {one: number + 0.5 for number, one in enumerate(keys)}


@pytest.mark.parametrize("text", [b'{"type":"answers"', b'{"type":"answers","request":"x"}'])
async def test_what_is_no_page_is_refused(approved: Approved, several: Several, text: bytes) -> None:
    with pytest.raises(PeerError) as caught:
        take(several.brokers[0].hub, {}, text)
    approved(str(caught.value))


async def test_a_broker_that_goes_leaves_no_question_open(several: Several) -> None:
    rank = await several.brokers[0].rank(0)
    await several.listed(0)
    terminal = await several.brokers[1].terminal()
    await terminal.say(Question(request=7, keys=(key(0),), action=Action.EVAL, seconds=60.0, text="x"))
    await rank.expect(Ask)
    several.kill(0)
    (answer,) = (await terminal.expect(Answers)).answers
    assert (answer.kind, answer.text) == (Kind.LOST, ITS_BROKER_IS_GONE)


OPENED = OpenLeg(leg=3, role=Role.DRIVER, name="me@h", token="", job=None, digest=b"", peer="10.0.0.1:5")


async def test_a_terminal_of_another_broker_that_breaks_the_protocol_is_closed(several: Several) -> None:
    one, two = several.clusters[:2]
    two.send("one", OPENED)
    two.send("one", LegSaid(leg=OPENED.leg, frame=pack_message(Greet(minor=0, release="1", name="x"))))
    sent = several.nats.buses["one"].sent
    await several.until(lambda: bool(sent) and isinstance(decode(sent[-1][1]), CloseLeg))
    closed = decode(sent[-1][1])
    assert isinstance(closed, CloseLeg)
    assert (closed.code, closed.reason) == (CloseCode.BAD_MESSAGE, "a second `greet`")
    await several.until(lambda: not several.brokers[0].hub.terminals.links)
    assert not one.hosted


async def test_a_revoked_token_ends_legs_at_the_ranks_broker(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    terminal = await several.brokers[1].seated(key(0), mode=Mode.WATCH)
    for link in several.brokers[0].hub.terminals.links.values():
        link.connection.close(CloseCode.REVOKED, "revoked")
    assert (await terminal.closed())[0] == CloseCode.REVOKED
