"""The end of a stop that a program holds, and the begin of the next one, on a scripted broker."""

from __future__ import annotations

import asyncio

import pytest

import dbg_client
from dbg_wire.messages import Notice, RankReport, Report
from dbg_wire.records.ranks import RankState
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import HERE, FakeBroker, make_pdb_report, make_prompt, make_rank

LET_GO = '"bob@login1 (VS Code)" let it go on'


async def test_a_program_is_told_who_let_its_rank_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeBroker(make_rank(5)) as broker:
        for name, value in broker.environment.items():
            monkeypatch.setenv(name, value)
        async with dbg_client.aconnect() as connected, connected.job()["5"].attach() as stop:
            broker.tell(Notice(text=LET_GO, ends_stop=True))
            broker.tell(Report(report=RankReport(state=RankState.RUNNING)))
            await stop._switchboard.until(lambda: stop._attachment.ending.by or None, seconds(20))
            with pytest.raises(dbg_client.StopEnded):
                await stop.eval("loss")


async def test_a_program_has_its_next_stop_once_the_debugger_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = make_rank(5)
    with FakeBroker(rank, reports={rank.key: make_pdb_report(make_prompt())}) as broker:
        for name, value in broker.environment.items():
            monkeypatch.setenv(name, value)
        async with dbg_client.aconnect() as connected, connected.job()["5"].attach() as stop:
            await stop.resume()
            waiting = asyncio.create_task(stop.wait(seconds(20)))
            # Behind set_trace() pdb runs to the next line first, and a rank that runs is asked in vain.
            broker.tell(Report(report=make_pdb_report(None, stop=2)))
            await stop._switchboard.until(lambda: stop._stop.number == 2 or None, seconds(20))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not waiting.done()
            broker.tell(Report(report=make_pdb_report(make_prompt(2), stop=2)))
            assert (await waiting) == HERE
