from __future__ import annotations

import asyncio
from typing import cast

import pytest

from dbg_client.actions.in_session import Answering
from dbg_client.core.choose import Choice
from dbg_client.core.link import BrokerLink
from dbg_client.core.switchboard import Switchboard
from dbg_client.terminal.picker import PickActions
from dbg_wire.codec import Input
from dbg_wire.messages import Answers, Change, Gone, Kind, Message, Question, RankAnswer, Snapshot
from dbg_wire.records.ranks import RankState
from tests.conftest import Approved
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink

RUNNING = make_rank(5, state=RankState.RUNNING, where=None, reason=None)


class Broker(ScriptedLink):
    """Answer each question at once, with one answer for each rank; None: there is no broker."""

    def __init__(self, answer: RankAnswer | None) -> None:
        super().__init__(up=answer is not None)
        self._answer = answer
        self._switchboard = Switchboard(lambda: cast("BrokerLink", self), 1.0)
        self.directory = self._switchboard.directory
        self.directory.receive(Snapshot(ranks=(RUNNING,), last=True))
        self.actions = PickActions(Answering(self._switchboard), color=False)

    @property
    def asked(self) -> list[Question]:
        return self.sent

    def send(self, item: Message | Input) -> bool:
        is_sent = super().send(item)
        if isinstance(item, Question) and self._answer is not None:
            answers = tuple(RankAnswer(key=key, kind=self._answer.kind, text=self._answer.text) for key in item.keys)
            self.events.put_nowait(Answers(request=item.request, answers=answers, last=True))
        return is_sent

    async def __aenter__(self) -> Broker:
        await self._switchboard.dial()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._switchboard.close()


async def test_without_a_broker_the_page_says_so(approved: Approved) -> None:
    actions = Broker(None).actions

    approved(await actions.answer("w", "", [RUNNING]))
    approved((await actions.stop(RUNNING)).text, "2")


async def test_a_question_that_can_not_be_asked_is_a_page() -> None:
    async with Broker(None) as broker:
        assert "`q` is not for 2 ranks at once" in await broker.actions.answer("c", "q", [RUNNING, make_rank(6)])
        assert broker.asked == []


async def test_a_rank_that_stops_later_is_returned_as_it_is_then() -> None:
    async with Broker(RankAnswer(key="", kind=Kind.RUNNING, text="in C code")) as broker:
        stopping = asyncio.ensure_future(broker.actions.stop(RUNNING))
        stopped = make_rank(5)
        broker.events.put_nowait(Change(rank=stopped))

        assert (await asyncio.wait_for(stopping, seconds(10))).choice == Choice(stopped, is_broken_into=True)


@pytest.mark.parametrize(
    "news",
    [
        Change(rank=make_rank(5, state=RankState.EXITED, exit=1)),
        Change(rank=make_rank(5, state=RankState.LOST)),
        Gone(key=RUNNING.key),
    ],
)
async def test_a_rank_that_ends_instead_is_a_page(approved: Approved, news: Message) -> None:
    async with Broker(RankAnswer(key="", kind=Kind.RUNNING, text="in C code")) as broker:
        stopping = asyncio.ensure_future(broker.actions.stop(RUNNING))
        broker.events.put_nowait(news)
        approved((await asyncio.wait_for(stopping, seconds(10))).text)


async def test_a_rank_that_can_not_be_broken_into_says_why() -> None:
    async with Broker(RankAnswer(key="", kind=Kind.ERROR, text="it has not called install()")) as broker:
        assert (await broker.actions.stop(RUNNING)).text == "gpu013:5: it has not called install()\n"


async def test_a_break_in_that_is_given_up_is_withdrawn() -> None:
    async with Broker(RankAnswer(key="", kind=Kind.RUNNING, text="in C code")) as broker:
        stopping = asyncio.ensure_future(broker.actions.stop(RUNNING))
        for _ in range(10):  # it asks, is answered, and waits for the list
            await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping], timeout=seconds(10))

        assert [question.withdrawn for question in broker.asked] == [False, True]
