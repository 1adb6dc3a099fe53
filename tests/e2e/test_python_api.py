"""A program uses the library on real ranks: it asks, looks, listens, and holds the keyboard of a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import dbg_client
from dbg_client import AsyncBroker, Broker, RankChange
from dbg_client.api.breakpoints import REMOVED
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.ranks import start_ranks, wait_until_states
from tests.support.time_unit import seconds

TRAIN = """\
import dbg_agent, os

def step(rank):
    loss = 0.25 if rank < 3 else 0.75
    name = "<b>%d</b>" % rank
    dbg_agent.set_trace()
    loss = loss + 1
    loss = loss + 1
    return loss

rank = int(os.environ["RANK"])
print(step(rank))
dbg_agent.set_trace()
print("ended well", flush=True)
"""
PATIENCE = seconds(20)


@pytest.fixture
def ranks(processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    """Start four ranks that stop, and have this program find their broker."""
    running_broker(processes, home)
    monkeypatch.setenv("DBG_HOME", str(home))
    started = start_ranks(processes, home, TRAIN, 4)
    wait_until_states(home, dict.fromkeys(range(4), "stopped"))
    return started


@pytest.fixture
def broker(ranks: list[Child]) -> Iterator[Broker]:
    with dbg_client.connect(timeout=PATIENCE) as broker:
        yield broker


def test_a_stop_is_held_stepped_and_left_as_it_is(broker: Broker, home: Path, ranks: list[Child]) -> None:
    job = broker.job()
    with job[3].attach() as stop:
        assert stop.reason == "breakpoint"
        assert stop.locals() == {"rank": "3", "loss": "0.75", "name": "'<b>3</b>'"}
        first = stop.stack()[-1]
        moved = stop.next()
        assert (moved.function, moved.line) == ("step", first.line + 1)
        if moved.line == 7:
            # pdb of Python 3.13 stops at the call of set_trace itself.
            moved = stop.next()
        assert stop.eval("loss + 1") == "2.75"
        assert stop.up().function == "<module>"
        assert "name" not in stop.locals()
        with pytest.raises(dbg_client.DbgError):
            stop.up()
        assert stop.down() == moved
        with pytest.raises(dbg_client.RankError, match="NameError"):
            stop.eval("no_such_name")
        with pytest.raises(dbg_client.KeyboardTaken), job[3].attach():
            pytest.fail("two programs type")
        stop.resume()
        place = stop.wait(PATIENCE)
        assert place is not None
        assert place.function == "<module>"
        assert stop.eval("rank") == "3"
    wait_until_states(home, dict.fromkeys(range(4), "stopped"))
    job.resume()
    assert ranks[3].wait(PATIENCE) == 0
    assert "ended well" in ranks[3].text()


async def test_an_asyncio_program_asks_several_questions_at_once(ranks: list[Child]) -> None:
    async with dbg_client.aconnect(timeout=PATIENCE) as broker:
        job = broker.job()
        values = await asyncio.gather(*(job[rank].eval(f"rank * {rank}") for rank in range(4)))
        assert [value.groups[0].text for value in values] == ["0", "1", "4", "9"]
        changes: list[RankChange] = []
        listening = asyncio.create_task(gone_on(broker, changes))
        await asyncio.sleep(0)
        await job[0].resume()
        await listening
        first, last = changes[0], changes[-1]
        assert first.before is not None
        assert first.before.state == "stopped"
        assert last.now is not None
        assert last.now.rank == 0


async def gone_on(broker: AsyncBroker, changes: list[RankChange]) -> None:
    """Listen until rank 0 stands at its second stop."""
    async for change in broker.job().events():
        changes.append(change)
        where = change.rank.where
        if change.rank.rank == 0 and where is not None and where.function == "<module>":
            return


def test_values_of_a_stop_are_listed_in_levels_and_assigned(broker: Broker) -> None:
    job = broker.job()
    with job[1].attach() as stop:
        config = stop.inspect("{'a': [1, 2], 'text': chr(27) + '[2J'}")
        first, text = stop.variables(config)
        assert (first.name, first.text, first.indexed) == ("'a'", "[1, 2]", 2)
        assert text.text == repr("\x1b[2J")
        assert [one.name for one in stop.variables(count=2)] == ["rank", "loss"]
        assert stop.set("loss", "loss * 4").text == "1.0"
        stop.set("0", "'new'", of=first)
        assert stop.variables(config)[0].text == "['new', 2]"
        with pytest.raises(dbg_client.RankError, match="ZeroDivisionError"):
            stop.set("loss", "1 / 0")
        with pytest.raises(dbg_client.DbgError):
            stop.variables(scope="builtins")
        assert stop.exception() is None
        with pytest.raises(dbg_client.KeyboardTaken):
            stop.set("loss", handover(broker))


def handover(broker: Broker) -> str:
    """Take the keyboard of rank 1 elsewhere for a moment."""
    with broker.job()[1].attach(take=True):
        return "0"


def test_breakpoints_are_set_listed_and_cleared_in_many_ranks(broker: Broker) -> None:
    job = broker.job()
    answer = job.set_breakpoint("rank_script.py", 8, condition="rank > 1")
    assert [(group.ranks, group.text) for group in answer.groups] == [("0-3", "set")]
    where = job.list()[0].where
    assert where is not None
    file = where.file
    moved = job[[0, 1]].set_breakpoint(file, 10)
    assert [(group.ranks, group.text) for group in moved.groups] == [("0-1", "set at line 11")]
    assert len(job.set_breakpoint(file, 7, condition="rank ==").errors) == 4
    two, one = job.breakpoints().groups
    assert (two.ranks, two.text) == ("0-1", f"{file}:8 if rank > 1\n{file}:11 (asked for line 10)")
    assert one.text == f"{file}:8 if rank > 1"
    with pytest.raises(dbg_client.DbgError):
        job.set_breakpoint("other.py", 8)

    job["0-2"].resume()
    stopped = [job[number].wait(PATIENCE) for number in range(3)]
    assert [(rank.rank, rank.where and rank.where.line) for rank in stopped] == [(0, 13), (1, 13), (2, 8)]
    assert {group.text for group in job.clear_breakpoint("rank_script.py", 8).groups} == {REMOVED}


def test_a_stop_is_held_until_it_or_its_connection_is_closed(ranks: list[Child], home: Path) -> None:
    broker = dbg_client.connect(timeout=PATIENCE)
    job = broker.job()
    stop = job[0].attach()
    assert repr(stop).startswith(f"<{stop.rank.address} stopped in step /")
    assert stop.eval("rank") == "0"
    stop.close()
    stop.close()
    left = job[0].attach()
    assert "loss: 0.25" in repr(left.variables())
    broker.close()
    broker.close()
    left.close()
    with pytest.raises(
        dbg_client.DbgError,
    ):
        job.list()
    with dbg_client.connect(timeout=PATIENCE) as another, another.job()[0].attach() as again:
        assert again.eval("rank") == "0"
