"""A rank that comes after the IDE has set its breakpoints does not pass by them."""

from __future__ import annotations

import asyncio

from dbg_client.faces.dap.breakpoints import Breakpoints
from dbg_client.faces.dap.source import Paths, SourceLocator
from dbg_wire.messages import Answers, Change, Kind, RankAnswer
from dbg_wire.records.breakpoints import BreakpointsWish, BreakpointWish
from tests.conftest import Approved
from tests.unit.client.faces.dap.shown import threads
from tests.unit.client.fake_broker import make_rank
from tests.unit.client.scripted_link import ScriptedLink

LATE = make_rank(3, stop=1)


def test_a_rank_that_has_just_come_has_them_before_it_moves_and_is_asked_once(approved: Approved) -> None:
    refused = RankAnswer(key=LATE.key, kind=Kind.ERROR, text="not today")
    link = ScriptedLink([Answers(request=0, answers=(refused,))])

    async def move() -> None:
        async with threads(link, []) as (_, _, window):
            breakpoints = Breakpoints(window, Paths(), SourceLocator(window, Paths()))
            asked = {"source": {"path": "/nowhere/train.py"}, "breakpoints": [{"line": 7}]}
            (row,) = (await breakpoints.set(asked))["breakpoints"]
            approved(row["message"])
            link.events.put_nowait(Change(rank=LATE))
            await window.switchboard.until(lambda: window.ranks or None)
            await breakpoints.reach(LATE)
            await breakpoints.reach(LATE)

    asyncio.run(move())
    (question,) = link.sent
    assert question.inquiry == BreakpointsWish(set=(BreakpointWish(file="/nowhere/train.py", line=7),))
