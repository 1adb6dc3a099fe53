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
from dbg_broker.hub.cluster.remote_answers import RemoteQuestion, take
from dbg_broker.net.websocket import CloseCode, pack_message
from dbg_broker.ranks.registry import ITS_BROKER_IS_GONE
from dbg_wire.codec import encode
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
from tests.unit.broker.peers import attach


def opened(several: Several, *keys: str) -> RemoteQuestion:
    """Return a question that is open at the first broker."""
    questions = several.brokers[0].hub.ranks.questions
    number, _ = questions.ask(1, Question(request=7, keys=keys, action=Action.EVAL, seconds=9.0), 0.0)
    return RemoteQuestion(number, dict.fromkeys(keys), 9.0)


def page(remote: RemoteQuestion, *answers: RankAnswer, last: bool = True) -> bytes:
    return encode(Answers(request=remote.number, answers=answers, last=last)).encode()


def value(number: int, text: str = "1") -> RankAnswer:
    return RankAnswer(key=key(number), kind=Kind.VALUE, text=text)


async def test_a_rank_without_an_answer_on_the_last_page_is_lost(several: Several) -> None:
    hub, remote = several.brokers[0].hub, opened(several, key(0), key(1), "own")
    questions = {remote.number: RemoteQuestion(remote.number, dict.fromkeys((key(0), key(1))), 9.0)}
    take(hub, questions, page(remote, value(0)))
    assert not questions
    finished = hub.ranks.questions.finish(remote.number)
    assert finished is not None
    assert b"its broker has no answer of it" in (finished.said[key(1)] or b"")
    assert finished.said["own"] is None


async def test_a_question_over_several_brokers_has_one_folded_answer(several: Several) -> None:
    ranks = [await broker.rank(number) for number, broker in enumerate(several.brokers)]
    for number in range(len(ranks)):
        await several.listed(number)
    terminal = await several.brokers[0].terminal()
    keys = tuple(key(number) for number in range(len(ranks)))
    await terminal.say(Question(request=7, keys=keys, action=Action.EVAL, seconds=9.0, text="x", live=True, fold=True))
    for rank in ranks:
        ask = await rank.expect(Ask)
        await rank.say(Answer(request=ask.request, kind=Kind.VALUE, text="0.25"))
    (answer,) = (await terminal.expect(Answers)).answers
    assert (answer.text, {answer.key, *answer.also}) == ("0.25", set(keys))


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


async def test_a_rate_counts_at_the_ranks_broker_too(several: Several) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    terminal = await several.brokers[1].terminal()
    await terminal.say(attach(key(0)))
    await several.until(lambda: bool(several.clusters[0].hosted))
    (hosted,) = several.clusters[0].hosted._legs["two"].values()
    (link,) = several.brokers[1].hub.terminals.links.values()
    connection = several.brokers[1].hub.connections.open[link.number]
    hosted.rest(0.2)
    await several.until(lambda: connection._is_resting)
    await several.until(lambda: not connection._is_resting)
