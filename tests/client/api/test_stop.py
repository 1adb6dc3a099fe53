"""The end of a stop that a program holds, on a scripted broker."""

from __future__ import annotations

import pytest

import dbg_client
from dbg_wire.messages import Notice, RankReport, Report
from dbg_wire.ranks import RankState
from tests.client.fake_broker import FakeBroker, make_rank
from tests.support.time_unit import seconds

LET_GO = '"bob@login1 (VS Code)" let it go on'


async def test_a_program_is_told_who_let_its_rank_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeBroker(make_rank(5)) as broker:
        for name, value in broker.environment.items():
            monkeypatch.setenv(name, value)
        async with dbg_client.aconnect() as connected, connected.job()["5"].attach() as stop:
            broker.tell(Notice(text=LET_GO, ends_stop=True))
            broker.tell(Report(report=RankReport(state=RankState.RUNNING)))
            await stop._switchboard.until(lambda: stop._attachment.ended_by or None, seconds(20))
            with pytest.raises(dbg_client.StopEnded, match=r"is over \(\"bob@login1 \(VS Code\)\" let it go on\)"):
                await stop.eval("loss")
