"""The end of a stop that a program holds, and the begin of the next one, on a scripted broker."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import dbg_client
from dbg_client.api.blocking import Broker, Job, Ranks, Stop
from dbg_client.api.broker import AsyncBroker
from dbg_client.api.ranks import AsyncJob, AsyncRanks
from dbg_client.api.stop import AsyncStop
from dbg_wire.messages import Notice, RankReport, Report
from dbg_wire.records.ranks import RankState
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import HERE, FakeBroker, make_pdb_report, make_prompt, make_rank

LET_GO = "bob let it go"


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


TWINS: list[tuple[type[Any], type[Any]]] = [
    (AsyncBroker, Broker),
    (AsyncJob, Job),
    (AsyncRanks, Ranks),
    (AsyncStop, Stop),
]


@pytest.mark.parametrize(("waited_for", "blocking"), TWINS)
def test_each_class_has_the_methods_of_its_twin_with_their_parameters_and_their_documentation(
    waited_for: type[Any], blocking: type[Any]
) -> None:
    names = [name for name in dir(waited_for) if not name.startswith("_") or name == "_repr_html_"]
    assert len(names) > 5
    for name in names:
        there, here = getattr(waited_for, name), getattr(blocking, name)
        assert not inspect.iscoroutinefunction(here), name
        if isinstance(there, property):
            assert here.__doc__ == there.__doc__, name
            continue
        shown, expected = (
            [one.replace(annotation=inspect.Parameter.empty) for one in inspect.signature(method).parameters.values()]
            for method in (here, there)
        )
        assert shown == expected, name
        assert name == "_repr_html_" or here.__doc__ == there.__doc__, name
