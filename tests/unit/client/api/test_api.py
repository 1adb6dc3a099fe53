"""What a program asks of ranks, at a broker that answers as a test has prepared it."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import dbg_client
from dbg_client.api.blocking import Broker, Job, Ranks, Stop
from dbg_client.api.broker import AsyncBroker, open_broker
from dbg_client.api.ranks import AsyncJob, AsyncRanks, Wanted, read_selector, target_text
from dbg_client.api.stop import AsyncStop
from dbg_client.core.errors import Declined
from dbg_client.core.remembered_groups import UnknownGroup
from dbg_client.core.switchboard import switchboard_to
from dbg_client.dap.adapter import Adapter
from dbg_client.dap.messages import Request
from dbg_client.mcp.server import McpServer
from dbg_client.seat.effects import Finish
from dbg_command.targets import select
from dbg_dial.tcp import within
from dbg_wire.errors import BadInput
from dbg_wire.messages import (
    Action,
    Attach,
    Change,
    Kind,
    Notice,
    RankAnswer,
    RankReport,
    Refusal,
    RefusalCode,
    Report,
)
from dbg_wire.records.ranks import RankState
from tests.support.rank_infos import changed
from tests.support.time_unit import seconds
from tests.unit.client.dap.shown import Shown
from tests.unit.client.fake_broker import HERE, TOKEN, FakeBroker, make_pdb_report, make_prompt, make_rank


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> pytest.MonkeyPatch:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def visit(monkeypatch: pytest.MonkeyPatch, broker: FakeBroker) -> dbg_client.Broker:
    for name, value in broker.environment.items():
        monkeypatch.setenv(name, value)
    return dbg_client.connect()


def test_ranks_without_breakpoints_and_without_support_are_distinguished(environment: pytest.MonkeyPatch) -> None:
    fake = FakeBroker(make_rank(0), make_rank(1))
    stock = RankAnswer(key="", kind=Kind.ERROR, text="an older debugger")
    fake.answers[Action.BREAKPOINTS] = RankAnswer(key="", kind=Kind.VALUE, text="")
    with fake, visit(environment, fake) as broker:
        fake.answers_by_key[make_rank(1).key] = stock
        answer = broker.job().breakpoints()
        assert [(group.kind, group.ranks) for group in answer.groups] == [("value", "0"), ("error", "1")]
        assert answer.errors == {"gpu013:1": stock.text}


def test_missing_or_unnamed_job_is_an_error(environment: pytest.MonkeyPatch) -> None:
    ranks = (make_rank(0), make_rank(1, job="train-2"))
    with FakeBroker(*ranks) as fake, visit(environment, fake) as broker:
        with pytest.raises(dbg_client.DbgError):
            broker.job("train-3")
        with pytest.raises(dbg_client.DbgError):
            broker.job()
        assert broker.job("train-2").list() == (ranks[1],)
    with (
        FakeBroker() as fake,
        visit(environment, fake) as broker,
        pytest.raises(dbg_client.DbgError),
    ):
        broker.job()


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("0-7,!3", "0-7,!3"),
        (5, "5"),
        ([0, 3], "0,3"),
    ],
)
def test_ranks_are_named_by_python_values_or_a_target(wanted: Wanted, text: str) -> None:
    assert target_text(wanted) == text


@pytest.mark.parametrize("wanted", [[], 3.5, None, slice(0, 2)])
def test_invalid_selector_is_refused_with_a_remedy(wanted: Any) -> None:
    with pytest.raises(BadInput, match=r"as in job\["):
        target_text(wanted)


def test_target_selects_in_its_job_and_knows_the_groups_of_the_last_answer() -> None:
    ranks = [make_rank(0), make_rank(1), make_rank(0, key="other", job="other", address="gpu013:0")]
    assert [rank.job for rank in select(read_selector("all", "4711.0", {}), ranks).ranks] == ["4711.0", "4711.0"]
    group = read_selector("@1", "4711.0", {"@1": frozenset({ranks[1].key})})
    assert select(group, ranks).ranks == (ranks[1],)
    with pytest.raises(UnknownGroup, match="no group @2"):
        read_selector("@2", "4711.0", {"@1": frozenset({ranks[1].key})})


CONTINUED = "bob continued it"


async def test_stop_ends_when_another_user_continues_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeBroker(make_rank(5)) as broker:
        for name, value in broker.environment.items():
            monkeypatch.setenv(name, value)
        async with dbg_client.aconnect() as connected, connected.job()["5"].attach() as stop:
            broker.send_all(Notice(text=CONTINUED, ends_stop=True))
            broker.send_all(Report(report=RankReport(state=RankState.RUNNING)))
            await stop._switchboard.until(lambda: stop._attachment.ending.by or None, seconds(20))
            with pytest.raises(dbg_client.StopEnded):
                await stop.eval("loss")


async def test_wait_returns_once_the_debugger_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = make_rank(5)
    with FakeBroker(rank, reports={rank.key: make_pdb_report(make_prompt())}) as broker:
        for name, value in broker.environment.items():
            monkeypatch.setenv(name, value)
        async with dbg_client.aconnect() as connected, connected.job()["5"].attach() as stop:
            await stop.resume()
            waiting = asyncio.create_task(stop.wait(seconds(20)))
            # Behind set_trace() pdb runs to the next line first, and a rank that runs is asked in vain.
            broker.send_all(Report(report=make_pdb_report(None, stop=2)))
            await stop._switchboard.until(lambda: stop._stop.number == 2 or None, seconds(20))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not waiting.done()
            broker.send_all(Report(report=make_pdb_report(make_prompt(2), stop=2)))
            assert (await waiting) == HERE


async def test_wait_retries_a_refused_seat_rarely_and_raises_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dbg_client.seat.seat.AGAIN_SECONDS", 0.2)
    rank = make_rank(5)
    with FakeBroker(rank, reports={rank.key: make_pdb_report(make_prompt())}) as broker:
        for name, value in broker.environment.items():
            monkeypatch.setenv(name, value)
        async with dbg_client.aconnect() as connected, connected.job()["5"].attach() as stop:
            broker.refusals[Attach] = Refusal(code=RefusalCode.FULL, text="64 terminals are at gpu013:5")
            broker.send_all(Change(rank=changed(rank, state=RankState.LOST)))
            broker.send_all(Change(rank=rank))
            stop._seat.perform([Finish(Declined("64 terminals are at gpu013:5"))])
            with pytest.raises(Declined):
                await stop.wait(seconds(1))
        assert len([item for item in broker.received if isinstance(item, Attach)]) < 20


def test_empty_selection_is_false(environment: pytest.MonkeyPatch) -> None:
    with FakeBroker(make_rank(5)) as broker:
        for name, value in broker.environment.items():
            environment.setenv(name, value)
        with dbg_client.connect() as connected:
            assert connected.job()["stopped"]
            # What a prompt of Python shows of an answer.
            answer = connected.job()["stopped"].eval("loss")
            assert repr(answer) == str(answer).rstrip()
            assert not connected.job()["held"]


TWINS: list[tuple[type[Any], type[Any]]] = [
    (AsyncBroker, Broker),
    (AsyncJob, Job),
    (AsyncRanks, Ranks),
    (AsyncStop, Stop),
]


@pytest.mark.parametrize(("waited_for", "blocking"), TWINS)
def test_blocking_classes_match_the_async_ones(waited_for: type[Any], blocking: type[Any]) -> None:
    names = [name for name in dir(waited_for) if not name.startswith("_")]
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
        assert here.__doc__ == there.__doc__, name


Visit = Callable[[FakeBroker], None]

ROUNDS = 4


def forget(broker: FakeBroker) -> None:
    """Drop a connection that was never closed."""
    assert len(dbg_client.connect(address(broker)).ranks) == 1


def close(broker: FakeBroker) -> None:
    """Close a connection."""
    with dbg_client.connect(address(broker)) as connection:
        assert len(connection.ranks) == 1


def lose(broker: FakeBroker) -> None:
    """Drop a connection that broke."""
    connection = dbg_client.connect(address(broker))
    broker.cut()
    assert len(connection.ranks) == 1


def ask_as_an_agent(broker: FakeBroker) -> None:
    """Have the server of an agent list the ranks."""
    sent: list[dict[str, Any]] = []
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ranks", "arguments": {}}}

    async def visit() -> None:
        server = McpServer(
            lambda program: open_broker(address(broker), seconds(30), program=program),
            lambda line: sent.append(json.loads(line)),
        )
        await server.receive(json.dumps(call).encode())
        await within(seconds(30), asyncio.gather(*server._open._tasks.values()))
        await server.end()

    asyncio.run(visit())
    assert "gpu013" in sent[0]["result"]["content"][0]["text"]


def attach_an_ide(broker: FakeBroker) -> None:
    """Attach an IDE, and let it go."""

    async def visit() -> None:
        shown = Shown()
        adapter = Adapter(lambda name: switchboard_to(address(broker), seconds(30), program=name), None, shown.take)
        adapter.receive(Request(1, "attach", {"target": "all"}))
        assert (await shown.answer(1))["success"]
        await adapter.close()

    asyncio.run(visit())


def address(broker: FakeBroker) -> str:
    return broker.environment["DBG_BROKER"]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone


@pytest.mark.parametrize("visit", [forget, close, lose, ask_as_an_agent, attach_an_ide])
def test_ended_connections_leave_no_descriptor_or_thread(
    visit: Visit, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**environ, "DBG_TOKEN": TOKEN}.items():
        monkeypatch.setenv(name, value)
    with FakeBroker(make_rank(0)) as first:
        # What is made once for a process is there from now on.
        visit(first)
    gc.collect()
    threads, before = set(threading.enumerate()), descriptors()
    with FakeBroker(make_rank(0)) as one, FakeBroker(make_rank(1)) as two:
        brokers = {one._thread, two._thread}
        for number in range(ROUNDS):
            visit((one, two)[number % 2])
        gc.collect()
        for thread in set(threading.enumerate()) - threads - brokers:
            thread.join(seconds(20))
        assert set(threading.enumerate()) - brokers <= threads
    assert descriptors() <= before
