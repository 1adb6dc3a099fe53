from __future__ import annotations

import asyncio

import pytest

from dbg_client.actions.in_session import Answering
from dbg_client.core.directory import Directory
from dbg_client.core.shared_link import SharedLink
from dbg_client.terminal.pick_actions import PickActions
from dbg_wire.codec import Input
from dbg_wire.messages import Answers, Change, Gone, Kind, Message, Question, RankAnswer, Snapshot
from dbg_wire.ranks import RankState
from tests.client.fake_broker import make_rank
from tests.support.time_unit import seconds

RUNNING = make_rank(5, state=RankState.RUNNING, where=None, reason=None)


class Broker:
    """Answer each question at once, with one answer for each rank; None: there is no broker."""

    def __init__(self, answer: RankAnswer | None) -> None:
        self.asked: list[Question] = []
        self._answer = answer
        self.directory = Directory()
        self.directory.take(Snapshot(ranks=(RUNNING,), last=True))
        self._link = SharedLink(self._send)
        self.actions = PickActions(Answering(self._link, self.directory), self.directory, color=False)
        self.directory.on_change = self.actions.changed.set

    def _send(self, item: Message | Input) -> bool:
        assert isinstance(item, Question)
        self.asked.append(item)
        if self._answer is None:
            return False
        answers = tuple(RankAnswer(key=key, kind=self._answer.kind, text=self._answer.text) for key in item.keys)
        self._link.offer(Answers(request=item.request, answers=answers, last=True))
        return True


async def test_without_a_broker_the_page_says_so() -> None:
    actions = Broker(None).actions

    assert await actions.answer("w", "", [RUNNING]) == "the broker is gone\n"
    assert await actions.stop(RUNNING) == "the broker is gone\n"


async def test_a_question_that_can_not_be_asked_is_a_page() -> None:
    broker = Broker(None)

    assert "`q` is not for 2 ranks at once" in await broker.actions.answer("c", "q", [RUNNING, make_rank(6)])
    assert broker.asked == []


async def test_a_rank_that_stops_later_is_returned_as_it_is_then() -> None:
    broker = Broker(RankAnswer(key="", kind=Kind.RUNNING, text="in C code"))
    stopping = asyncio.ensure_future(broker.actions.stop(RUNNING))
    await asyncio.sleep(0)
    stopped = make_rank(5)
    broker.directory.take(Change(rank=stopped))

    assert await asyncio.wait_for(stopping, seconds(10)) == stopped


@pytest.mark.parametrize(
    ("news", "says"),
    [
        (Change(rank=make_rank(5, state=RankState.EXITED, exit=1)), "gpu013:5 has exited with status 1"),
        (Change(rank=make_rank(5, state=RankState.LOST)), "the connection to gpu013:5 was lost"),
        (Gone(key=RUNNING.key), "gpu013:5 is not there any more"),
    ],
)
async def test_a_rank_that_ends_instead_is_a_page(news: Message, says: str) -> None:
    broker = Broker(RankAnswer(key="", kind=Kind.RUNNING, text="in C code"))
    stopping = asyncio.ensure_future(broker.actions.stop(RUNNING))
    await asyncio.sleep(0)
    broker.directory.take(news)

    page = await asyncio.wait_for(stopping, seconds(10))

    assert isinstance(page, str)
    assert says in page


async def test_a_rank_that_can_not_be_broken_into_says_why() -> None:
    broker = Broker(RankAnswer(key="", kind=Kind.ERROR, text="it has not called install()"))

    assert await broker.actions.stop(RUNNING) == "gpu013:5: it has not called install()\n"


async def test_a_break_in_that_is_given_up_is_withdrawn() -> None:
    broker = Broker(RankAnswer(key="", kind=Kind.RUNNING, text="in C code"))
    stopping = asyncio.ensure_future(broker.actions.stop(RUNNING))
    for _ in range(10):  # it asks, is answered, and waits for the list
        await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait([stopping], timeout=seconds(10))

    assert [question.withdrawn for question in broker.asked] == [False, True]
