"""Answers of other brokers to questions of this one's terminals."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbg_broker.hub import asking
from dbg_broker.hub.cluster.remote_answers import RemoteQuestion, seconds_there, take
from dbg_broker.ranks.questions import MIN_SECONDS, OpenQuestions
from dbg_wire.codec import encode
from dbg_wire.errors import PeerError
from dbg_wire.messages import Action, Answer, Answers, Ask, Kind, Progress, Question, RankAnswer
from dbg_wire.records.ranks import Place
from tests.conftest import Approved
from tests.unit.broker.hub.cluster.several import Several, key


def opened(several: Several, *keys: str) -> RemoteQuestion:
    """Return a question that is open at the first broker."""
    questions = several.brokers[0].hub.ranks.questions
    number, _ = questions.ask(1, Question(request=7, keys=keys, action=Action.EVAL, seconds=9.0), 0.0)
    return RemoteQuestion(number, dict.fromkeys(keys), 9.0)


def page(remote: RemoteQuestion, *answers: RankAnswer, last: bool = True) -> bytes:
    return encode(Answers(request=remote.number, answers=answers, last=last)).encode()


def value(number: int, text: str = "1") -> RankAnswer:
    return RankAnswer(key=key(number), kind=Kind.VALUE, text=text)


async def test_answers_of_ranks_that_were_not_asked_are_left_out(several: Several) -> None:
    hub, remote = several.brokers[0].hub, opened(several, key(0), key(1))
    questions = {remote.number: remote}
    take(hub, questions, page(remote, value(0), value(2), last=False))
    take(hub, questions, page(remote, value(0, "again"), last=False))
    assert list(questions) == [remote.number]
    assert list(remote.missing) == [key(1)]
    finished = hub.ranks.questions.finish(remote.number)
    assert finished is not None
    assert b'"1"' in (finished.said[key(0)] or b"")
    assert finished.said[key(1)] is None


async def test_a_rank_without_an_answer_on_the_last_page_is_lost(several: Several) -> None:
    hub, remote = several.brokers[0].hub, opened(several, key(0), key(1), "own")
    questions = {remote.number: RemoteQuestion(remote.number, dict.fromkeys((key(0), key(1))), 9.0)}
    take(hub, questions, page(remote, value(0)))
    assert not questions
    finished = hub.ranks.questions.finish(remote.number)
    assert finished is not None
    assert b"its broker has no answer of it" in (finished.said[key(1)] or b"")
    assert finished.said["own"] is None


async def test_a_folded_answer_is_entered_for_each_rank_that_was_asked(several: Several) -> None:
    hub, remote = several.brokers[0].hub, opened(several, key(0), key(1), key(2))
    folded = value(0, "all the same").replace(also=(key(2), key(7)))
    take(hub, {remote.number: remote}, page(remote, folded, last=False))
    assert list(remote.missing) == [key(1)]
    finished = hub.ranks.questions.finish(remote.number)
    assert finished is not None
    assert finished.said[key(0)] is finished.said[key(2)] is not None
    assert key(7) not in finished.said


async def test_an_answer_that_no_broker_has_written_like_this_is_written_anew(several: Several) -> None:
    hub, remote = several.brokers[0].hub, opened(several, key(0))
    text = f'{{"also": [], "text": "1", "kind": "value", "key": "{key(0)}"}}'
    whole = f'{{"type":"answers","request":{remote.number},"answers":[{text}],"last":false}}'
    take(hub, {remote.number: remote}, whole.encode())
    # It was the last one.
    assert not hub.ranks.questions.is_open(remote.number)


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


@pytest.mark.parametrize("answer", ['{"kind":"value","text":""}', '{"key":1,"kind":"value"}', "[]"])
async def test_an_answer_without_a_rank_is_refused(several: Several, answer: str) -> None:
    remote = opened(several, key(0))
    text = f'{{"type":"answers","request":{remote.number},"answers":[{answer}]}}'
    with pytest.raises(PeerError):
        take(several.brokers[0].hub, {remote.number: remote}, text.encode())


def test_progress_of_other_brokers_counts_once() -> None:
    questions = OpenQuestions()
    keys = tuple(key(number) for number in range(6))
    number, _ = questions.ask(1, Question(request=7, keys=keys, action=Action.EVAL, seconds=9.0), 0.0)
    there, other = dict.fromkeys(keys[:3]), dict.fromkeys(keys[3:5])
    questions.note_progress(number, there, Progress(request=1, asked=3, answered=1, waiting=keys[1:3]))
    questions.note_progress(number, there, Progress(request=1, asked=3, answered=2, waiting=keys[2:3]))
    questions.note_progress(number, other, Progress(request=1, asked=2, answered=0, waiting=keys[3:5]))
    told = questions.progress(number)
    assert told is not None
    assert (told[1].asked, told[1].answered, set(told[1].waiting)) == (6, 2, {keys[2], keys[3], keys[4], keys[5]})
    for one in keys[:3]:
        questions.answer_for_rank(number, RankAnswer(key=one, kind=Kind.VALUE, text="1"))
    questions.note_progress(number, there, None)
    told = questions.progress(number)
    assert told is not None
    assert (told[1].answered, set(told[1].waiting)) == (3, set(keys[3:]))


@given(st.floats(MIN_SECONDS, 600.0))
def test_another_broker_has_less_time_but_some(left: float) -> None:
    assert MIN_SECONDS <= seconds_there(left) <= left


async def test_a_question_that_is_refused_there_has_an_answer_for_each_rank(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    await several.brokers[0].rank(0)
    await several.listed(0)
    terminal = await several.brokers[1].terminal()
    limit = asking.MAX_QUESTIONS
    receive = several.brokers[0].hub.connections.handlers.text

    def full_there(connection: object, text: str) -> None:
        monkeypatch.setattr(asking, "MAX_QUESTIONS", 0)
        receive(connection, text)  # type: ignore[arg-type]
        monkeypatch.setattr(asking, "MAX_QUESTIONS", limit)

    handlers = several.brokers[0].hub.connections.handlers
    object.__setattr__(handlers, "text", full_there)
    await terminal.say(Question(request=7, keys=(key(0),), action=Action.EVAL, seconds=20.0, text="x"))
    (answer,) = (await terminal.expect(Answers)).answers
    assert (answer.kind, "questions are open already" in answer.text) == (Kind.LOST, True)


async def test_a_broker_that_goes_leaves_no_question_open(several: Several) -> None:
    rank = await several.brokers[0].rank(0)
    await several.listed(0)
    terminal = await several.brokers[1].terminal()
    await terminal.say(Question(request=7, keys=(key(0),), action=Action.EVAL, seconds=60.0, text="x"))
    await rank.expect(Ask)
    several.kill(0)
    (answer,) = (await terminal.expect(Answers)).answers
    assert (answer.kind, answer.text) == (Kind.LOST, "its broker is gone")


async def test_answers_of_many_ranks_come_over_several_pages(several: Several) -> None:
    ranks = [await several.brokers[number % 2].rank(number) for number in range(16)]
    for number in range(16):
        await several.listed(number)
    terminal = await several.brokers[2].terminal()
    keys = tuple(key(number) for number in range(16))
    await terminal.say(Question(request=7, keys=keys, action=Action.EVAL, seconds=60.0, text="x"))

    async def answer(number: int) -> None:
        ask = await ranks[number].expect(Ask)
        await ranks[number].say(Answer(request=ask.request, kind=Kind.VALUE, text=f"{number}" + "v" * 16_000))

    await asyncio.gather(*map(answer, range(16)))
    found: dict[str, str] = {}
    while True:
        part = await terminal.expect(Answers)
        found |= {one.key: one.text for one in part.answers}
        if part.last:
            break
    assert [found[key(number)].rstrip("v") for number in range(16)] == [str(number) for number in range(16)]
