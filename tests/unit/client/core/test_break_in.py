"""A break-in waits for the stop, reports an end, and is withdrawn when it is cancelled."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from dbg_client.core.asking import Asker
from dbg_client.core.brokers import Brokers
from dbg_client.core.switchboard import Switchboard
from dbg_client.core.waiting import break_in
from dbg_wire.codec import Input
from dbg_wire.errors import DbgError
from dbg_wire.messages import Change, Gone, Kind, Message, Question, RankAnswer, Snapshot
from dbg_wire.records.ranks import RankInfo, RankState
from tests.conftest import Approved
from tests.support.answers import answered
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink

RUNNING = make_rank(5, state=RankState.RUNNING, where=None, reason=None)


class Broker(ScriptedLink):
    """Answer each question at once: the rank can't be stopped yet."""

    def __init__(self) -> None:
        super().__init__()
        self._switchboard = Switchboard(lambda: cast("Brokers", self), 1.0)
        self.directory = self._switchboard.directory
        self.directory.receive(Snapshot(ranks=(RUNNING,), last=True))

    def send(self, item: Message | Input) -> bool:
        is_sent = super().send(item)
        if isinstance(item, Question):
            answers = tuple(RankAnswer(key=key, kind=Kind.RUNNING, text="in C code") for key in item.keys)
            self.events.put_nowait(answered(item.request, *answers))
        return is_sent

    def break_in(self) -> asyncio.Task[RankInfo | RankAnswer]:
        return asyncio.ensure_future(break_in(self._switchboard, Asker(self._switchboard), RUNNING))

    async def __aenter__(self) -> Broker:
        await self._switchboard.dial()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._switchboard.close()


async def test_rank_that_stops_later_is_returned() -> None:
    async with Broker() as broker:
        stopping = broker.break_in()
        stopped = make_rank(5)
        broker.events.put_nowait(Change(rank=stopped))

        assert await asyncio.wait_for(stopping, seconds(10)) == stopped


@pytest.mark.parametrize(
    "news",
    [
        Change(rank=make_rank(5, state=RankState.EXITED, exit=1)),
        Change(rank=make_rank(5, state=RankState.LOST)),
        Gone(key=RUNNING.key),
    ],
)
async def test_ended_rank_is_reported(approved: Approved, news: Message) -> None:
    async with Broker() as broker:
        stopping = broker.break_in()
        broker.events.put_nowait(news)
        with pytest.raises(DbgError) as ended:
            await asyncio.wait_for(stopping, seconds(10))
        approved(str(ended.value))


async def test_cancelled_break_in_is_withdrawn() -> None:
    async with Broker() as broker:
        stopping = broker.break_in()
        for _ in range(10):  # it asks, is answered, and waits for the list
            await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping], timeout=seconds(10))

        assert [question.withdrawn for question in broker.sent] == [False, True]
