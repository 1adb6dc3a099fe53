"""One link for several questions, waits and listeners at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from dbg_client.core.asking import Asker
from dbg_client.core.errors import Declined, TimedOut
from dbg_client.core.switchboard import MAX_QUESTIONS, Switchboard, switchboard_to
from dbg_wire.errors import BrokerUnreachable
from dbg_wire.messages import Action, Change, Kind, Question, RankAnswer, Refusal, RefusalCode
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import FakeBroker, make_rank

PATIENCE = seconds(10)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(make_rank(5)) as running:
        yield running


@pytest.fixture
async def board(broker: FakeBroker, environ: dict[str, str]) -> AsyncIterator[Switchboard]:
    opened = switchboard_to(None, PATIENCE, environ | broker.environment)
    await opened.open()
    yield opened
    await opened.close()


async def test_questions_of_several_tasks_get_their_own_answers(board: Switchboard, broker: FakeBroker) -> None:
    broker.answers[Action.EVAL] = RankAnswer(key="", kind=Kind.VALUE, text="0.25")
    broker.answers[Action.COMMAND] = RankAnswer(key="", kind=Kind.VALUE, text="moved")
    ranks, asker = board.directory.ranks, Asker(board)
    values = await asyncio.gather(asker.ask(Action.EVAL, ranks, "loss"), asker.ask(Action.COMMAND, ranks, "n"))
    assert [[answer.text for answer in answers] for answers in values] == [["0.25"], ["moved"]]


async def test_a_question_that_is_refused_leaves_the_others_open(board: Switchboard, broker: FakeBroker) -> None:
    broker.silent.add(Question)
    first = asyncio.create_task(Asker(board).ask(Action.EVAL, board.directory.ranks, "a"))
    second = asyncio.create_task(Asker(board).ask(Action.EVAL, board.directory.ranks, "b"))
    asked = await asyncio.to_thread(broker.wait_for, Question, lambda question: question.text == "b")
    broker.send_all(Refusal(code=RefusalCode.FULL, text="too many", request=asked.request))
    with pytest.raises(Declined, match="too many"):
        await second
    assert not first.done()
    first.cancel()


async def test_wait_ends_on_its_condition_or_timeout(board: Switchboard, broker: FakeBroker) -> None:
    rank = board.directory.ranks[0]

    def is_running() -> bool | None:
        return board.directory.ranks[0].state is RankState.RUNNING or None

    with pytest.raises(TimeoutError):
        await board.until(is_running, 0.01)
    waiting = asyncio.create_task(board.until(is_running))
    await asyncio.sleep(0)
    broker.send_all(Change(rank=make_rank(rank.rank, state=RankState.RUNNING)))
    assert await waiting


async def test_many_simultaneous_changes_are_checked_once(board: Switchboard) -> None:
    snapshots = 0

    def all_running() -> bool | None:
        nonlocal snapshots
        snapshots += 1
        return all(rank.state is RankState.RUNNING for rank in board.directory.ranks) or None

    waiting = asyncio.create_task(board.until(all_running))
    await asyncio.sleep(0)
    for number in range(500):
        await board._receive(Change(rank=make_rank(number, state=RankState.RUNNING)))
    assert await waiting
    # One at the beginning and one at the end.
    assert snapshots == 2


async def test_last_change_is_checked_at_the_end_of_a_wait(board: Switchboard) -> None:
    def running() -> bool | None:
        return board.directory.ranks[0].state is RankState.RUNNING or None

    waiting = asyncio.create_task(board.until(running, 0.0))
    await asyncio.sleep(0)
    board.directory.receive(Change(rank=make_rank(5, state=RankState.RUNNING)))
    assert await waiting


async def test_questions_above_the_limit_of_a_broker_are_queued(board: Switchboard, broker: FakeBroker) -> None:
    broker.silent.add(Question)
    asker, ranks = Asker(board), board.directory.ranks
    tasks = [asyncio.create_task(asker.ask(Action.EVAL, ranks, str(number))) for number in range(3 * MAX_QUESTIONS)]
    by_key = {ranks[0].key: RankAnswer(key="", kind=Kind.VALUE, text="0.25")}
    for number in range(len(tasks)):
        question = await broker.heard(Question, number + 1)
        asked = sum(isinstance(item, Question) for item in broker.received)
        assert asked <= number + MAX_QUESTIONS
        broker.reply(question, by_key)
    assert [answer.text for answers in await asyncio.gather(*tasks) for answer in answers] == ["0.25"] * len(tasks)


async def test_timeout_of_a_queued_question_begins_when_it_is_sent(
    approved: Approved, board: Switchboard, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbg_client.core.asking.GRACE_SECONDS", 0.0)
    broker.silent.add(Question)
    ranks = board.directory.ranks
    tasks = [asyncio.create_task(Asker(board).ask(Action.EVAL, ranks, "loss")) for _ in range(MAX_QUESTIONS)]
    first = await broker.heard(Question, 1)
    await broker.heard(Question, MAX_QUESTIONS)
    tasks.append(asyncio.create_task(Asker(board, 0.001).ask(Action.EVAL, ranks, "waits")))
    # Longer than its own time, which would be over now if it had begun.
    with pytest.raises(TimeoutError):
        await board.until(lambda: None, 0.01)
    broker.reply(first, {ranks[0].key: RankAnswer(key="", kind=Kind.VALUE, text="0.25")})
    assert (await broker.heard(Question, MAX_QUESTIONS + 1)).text == "waits"
    with pytest.raises(TimedOut) as caught:
        await tasks[-1]
    approved(str(caught.value))
    # It has given its turn to the next one.
    tasks.append(asyncio.create_task(Asker(board).ask(Action.EVAL, ranks, "next")))
    assert (await broker.heard(Question, MAX_QUESTIONS + 2)).text == "next"
    await board.close()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_open_wait_fails_when_the_connection_is_closed(board: Switchboard) -> None:

    def never() -> bool | None:
        return None

    waiting = asyncio.create_task(board.until(never))
    await asyncio.sleep(0)
    await board.close()
    with pytest.raises(BrokerUnreachable, match="closed its connection"):
        await waiting
