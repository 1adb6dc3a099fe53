"""Watchers' questions cost a rank little: equal questions share an answer, and the rank is asked at a bounded rate."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from dbg_broker import terminals
from dbg_broker.home.bearer import Role
from dbg_broker.ranks.questions import passed_on
from dbg_broker.terminals.glances import FRESH_SECONDS, GLANCE_SECONDS, Glances
from dbg_wire.messages import Action, Answer, Answers, Ask, Change, Kind, Question, Report, Snapshot, Subscribe
from dbg_wire.records.inspection import ScreenSize
from dbg_wire.records.ranks import Place
from tests.unit.broker.peers import RUNNING, STOPPED, Broker, Peer, registration

KEY = registration().identity.key
STACK = Answer(request=1, kind=Kind.VALUE, text="running", frames=(Place(file="t.py", line=1, function="f"),))
TEXT = passed_on(STACK)


def question(number: int = 1, action: Action = Action.WHERE, rows: int = 24, seconds: float = 60.0) -> Question:
    return Question(request=number, keys=(KEY,), action=action, seconds=seconds, inquiry=ScreenSize(rows=rows))


def ask(number: int = 1, action: Action = Action.WHERE, rows: int = 24, seconds: float = 5.0) -> Ask:
    return Ask(request=number, action=action, seconds=seconds, inquiry=ScreenSize(rows=rows))


def said(glances: Glances, question: Ask, now: float, key: str = KEY) -> None:
    glances.seconds_until_ask(key, question, now)
    assert glances.answered(key, question.request, TEXT, now) == [question.request]


def test_what_was_said_is_known_for_a_moment_and_to_the_same_question() -> None:
    glances = Glances()
    said(glances, ask(), 10.0)
    assert glances.known(KEY, ask(2), 10.0 + FRESH_SECONDS) == TEXT
    assert glances.known(KEY, ask(2), 10.1 + FRESH_SECONDS) is None
    said(glances, ask(action=Action.SCREEN), 20.0)
    assert glances.known(KEY, ask(action=Action.SCREEN, rows=99), 20.0) is None
    assert glances.known("another", ask(action=Action.SCREEN), 20.0) is None
    assert glances.known(KEY, ask(action=Action.SCREEN).replace(frame="step"), 20.0) is None
    glances.changed(KEY)
    assert glances.known(KEY, ask(action=Action.SCREEN), 20.0) is None
    assert (glances.size, len(glances)) == (0, 0)


def test_what_others_asked_is_passed_by() -> None:
    glances = Glances()
    assert glances.answered(KEY, 1, TEXT, 1.0) == [1]
    assert glances.known(KEY, ask(), 1.0) is None


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminals.glances, "MAX_BYTES", 3 * len(TEXT))
    glances = Glances()
    for number in range(9):
        said(glances, ask(number), 1.0, f"{number}")
    assert len(glances) == 3
    assert glances.size <= terminals.glances.MAX_BYTES
    assert glances.known("8", ask(9), 1.0) is not None


def test_one_answer_is_for_all_that_asked_the_same() -> None:
    glances = Glances()
    assert [glances.seconds_until_ask(KEY, ask(number), 5.0) for number in (1, 2, 3)] == [0.0, None, None]
    assert glances.seconds_until_ask(KEY, ask(4, Action.SCREEN), 5.0) == GLANCE_SECONDS
    assert glances.answered(KEY, 1, TEXT, 5.1) == [1, 2, 3]
    assert glances.seconds_until_ask(KEY, ask(5), 5.2) == pytest.approx(2 * GLANCE_SECONDS - 0.2)


def test_a_stack_does_not_answer_the_question_for_stops() -> None:
    glances = Glances()
    said(glances, ask(), 10.0)
    assert glances.known(KEY, ask(2).replace(stops=True), 10.0) is None


def test_one_that_was_not_answered_in_time_keeps_nobody_waiting() -> None:
    glances = Glances()
    assert glances.seconds_until_ask(KEY, ask(1, seconds=0.1), 5.0) == 0.0
    assert glances.seconds_until_ask(KEY, ask(2), 9.0) == 0.0
    glances.forget(KEY)
    assert glances.seconds_until_ask(KEY, ask(3), 9.1) == 0.0


class Asked:
    """A task that answers and counts the questions that reach a rank."""

    def __init__(self, rank: Peer) -> None:
        self.count = 0
        self._answering = asyncio.create_task(self._answer(rank))

    async def _answer(self, rank: Peer) -> None:
        while True:
            asked = await rank.expect(Ask)
            self.count += 1
            await rank.say(Answer(request=asked.request, kind=STACK.kind, text=STACK.text, frames=STACK.frames))

    async def end(self) -> None:
        self._answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._answering


async def ask_often(terminal: Peer, times: int) -> None:
    """Ask a number of questions, each one as soon as the one before is answered."""
    for number in range(times):
        await terminal.say(question(number))
        answers = await terminal.expect(Answers, lambda answers, wanted=number: answers.request == wanted)  # type: ignore[misc]
        assert [(answer.kind, answer.frames) for answer in answers.answers] == [(Kind.VALUE, STACK.frames)]


async def test_a_loop_of_watchers_questions_costs_a_rank_two_a_second(broker: Broker) -> None:
    asked = Asked(await broker.rank(report=RUNNING))
    watchers = [await broker.terminal(f"{number}@h", Role.WATCHER) for number in range(4)]
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(ask_often(watcher, 100) for watcher in watchers))
    lasted = asyncio.get_running_loop().time() - began
    assert asked.count <= 2 + lasted / GLANCE_SECONDS
    await asked.end()


async def test_who_may_type_is_answered_by_the_rank_itself(broker: Broker) -> None:
    asked = Asked(await broker.rank(report=RUNNING))
    await ask_often(await broker.terminal(), 20)
    assert asked.count == 20
    await asked.end()


async def test_a_watcher_hears_at_once_that_a_rank_has_stopped(broker: Broker) -> None:
    rank = await broker.rank(report=RUNNING)
    said(broker.hub.ranks.glances, ask(), asyncio.get_running_loop().time())
    watcher = await broker.terminal("w@h", Role.WATCHER)
    await watcher.say(Subscribe())
    await watcher.expect(Snapshot)
    await rank.say(Report(report=STOPPED))
    await watcher.expect(Change)
    await watcher.say(question())
    asked = await rank.expect(Ask)
    await rank.say(Answer(request=asked.request, kind=Kind.VALUE, text="stopped"))
    assert (await watcher.expect(Answers)).answers[0].text == "stopped"


async def test_one_that_asked_and_left_keeps_nobody_waiting(broker: Broker) -> None:
    rank = await broker.rank(report=RUNNING)
    first, second = [await broker.terminal(f"{number}@h", Role.WATCHER) for number in range(2)]
    await first.say(question())
    asked = await rank.expect(Ask)
    await second.say(question())
    await first.cut()
    await broker.left(lambda hub: len(hub.terminals.links) == 1)
    await rank.say(STACK.replace(request=asked.request))
    assert (await second.expect(Answers)).answers[0].frames == STACK.frames


async def test_a_question_that_ends_before_its_occasion_ends_as_silence(broker: Broker) -> None:
    await broker.rank(report=RUNNING)
    watcher = await broker.terminal("w@h", Role.WATCHER)
    for number in range(2):
        await watcher.say(question(number, seconds=0.1))
    for _ in range(2):
        assert (await watcher.expect(Answers)).answers[0].kind is Kind.SILENT
    assert len(broker.hub.ranks.questions) == 0
