from __future__ import annotations

import asyncio

import pytest

from dbg_client.core.errors import TimedOut
from dbg_client.core.patience import WaitingLine
from dbg_client.core.switchboard import switchboard_to
from dbg_client.core.waiting import open_and_list, wait_for_stop, with_signal
from dbg_wire.errors import BrokerUnreachable
from dbg_wire.messages import Change, Snapshot, Subscribe
from dbg_wire.records.ranks import DIED, RankState
from dbg_wire.targets.selection import parse_target
from tests.conftest import Approved
from tests.support.rank_infos import changed
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import FakeBroker, make_rank

PATIENCE = seconds(10)
RUNNING = make_rank(5, state=RankState.RUNNING, where=None, reason=None)


async def test_who_waits_is_told_of_the_wait_and_of_a_broker_that_comes_and_goes(environ: dict[str, str]) -> None:
    told: list[str] = []
    with FakeBroker(RUNNING) as broker:
        board = switchboard_to(None, PATIENCE, environ | broker.environment)
        await board.open()
        waiting = asyncio.ensure_future(wait_for_stop(board, parse_target("5"), PATIENCE, tell=told.append))
        await broker.heard(Subscribe)
        broker.cut()
        await broker.heard(Subscribe, count=2)
        broker.tell(Change(rank=make_rank(5)))

        assert (await waiting).rank == make_rank(5)
        await board.close()

    assert told == [
        "Waiting for 5 to stop; Ctrl-C gives up.",
        "The broker is gone, reconnecting (the connection broke).",
        "The broker is back.",
    ]


async def test_a_wait_says_what_the_ranks_do_meanwhile(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbg_client.core.patience.PATIENCE_SECONDS", 0.01)
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    line = WaitingLine(lines.put_nowait)
    other = make_rank(7, state=RankState.HELD)

    async def shown(sentence: str) -> None:
        while await asyncio.wait_for(lines.get(), PATIENCE) != f"{sentence} (0 s)":
            pass

    with FakeBroker(RUNNING, make_rank(6, state=RankState.RUNNING), other) as broker:
        board = switchboard_to(None, seconds(60), environ | broker.environment)
        await open_and_list(board, line)
        for target, said in (("5", "running"), ("5-7", "2 running, 1 held"), ("9", "no rank fits it yet")):
            waiting = asyncio.ensure_future(wait_for_stop(board, parse_target(target), PATIENCE, line=line))
            await shown(f"waiting for {target}: {said}")
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await board.close()


async def test_a_broker_that_is_slow_to_list_is_waited_for_aloud(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbg_client.core.patience.PATIENCE_SECONDS", 0.01)
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    with FakeBroker(RUNNING) as broker:
        broker.silent.add(Subscribe)
        board = switchboard_to(None, PATIENCE, environ | broker.environment)
        opening = asyncio.ensure_future(open_and_list(board, WaitingLine(lines.put_nowait)))
        while await asyncio.wait_for(lines.get(), PATIENCE) != "waiting for the broker's list of ranks (0 s)":
            pass
        broker.tell(Snapshot(ranks=(), last=True))
        await opening
        await board.close()


async def test_a_wait_has_an_end(approved: Approved, environ: dict[str, str]) -> None:
    with FakeBroker(RUNNING) as broker:
        board = switchboard_to(None, PATIENCE, environ | broker.environment)
        await board.open()
        with pytest.raises(TimedOut) as caught:
            await wait_for_stop(board, parse_target("5"), 0.01)
        approved(str(caught.value))
        await board.close()


async def test_the_signal_of_a_rank_that_died_is_waited_for(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    died = make_rank(5, state=RankState.EXITED, reason=DIED)
    killed = changed(died, exit=-9)
    exited = make_rank(5, state=RankState.EXITED, exit=0)
    monkeypatch.setattr("dbg_client.core.waiting.GUARD_SECONDS", PATIENCE)
    with FakeBroker(died) as broker:
        board = switchboard_to(None, PATIENCE, environ | broker.environment)
        await board.open()
        asked = asyncio.ensure_future(with_signal(board, died))
        await asyncio.sleep(0)
        broker.tell(Change(rank=killed))
        assert await asked == killed
        assert await with_signal(board, exited) == exited
        # A rank without a guard has nobody to tell it.
        broker.tell(Change(rank=died))
        monkeypatch.setattr("dbg_client.core.waiting.GUARD_SECONDS", 0.01)
        board.directory.receive(Change(rank=died))
        assert await with_signal(board, died) == died
        await board.close()


async def test_a_broker_that_lists_nothing_is_unreachable(approved: Approved, environ: dict[str, str]) -> None:
    with FakeBroker(RUNNING) as broker:
        broker.silent.add(Subscribe)
        board = switchboard_to(None, PATIENCE, environ | broker.environment)
        await board.dial()
        with pytest.raises(BrokerUnreachable) as caught:
            await board.listed(0.01)
        approved(str(caught.value))
        await board.close()
