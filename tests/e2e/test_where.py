"""What `where` and the list know beyond the places of ranks: since when, which threads, and what a step waits for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import dbg_client
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, start_ranks, wait_until_states
from tests.support.raw_terminal import listed, raw_terminal
from tests.support.time_unit import seconds

REDUCE = """\
import threading

def all_reduce():
    threading.Event().wait()
"""

SCRIPT = """\
import importlib.util, os, threading
import dbg_agent
dbg_agent.install()

spec = importlib.util.spec_from_file_location("reduce", os.environ["REDUCE"])
reduce = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reduce)

def feed():
    threading.Event().wait()

def work():
    dbg_agent.set_trace()
    reduce.all_reduce()

threading.Thread(target=feed, daemon=True).start()
if os.environ["RANK"] == "3":
    feed()
work()
"""
"""Rank 3 runs, and waits; the others stop before a collective, which a module at the place of torch's stands for."""


@pytest.fixture
def broker(processes: Processes, home: Path) -> RunningBroker:
    """A broker with four ranks, of which the last one runs and the others are stopped."""
    started = running_broker(processes, home)
    path = home / "torch/distributed/distributed_c10d.py"
    path.parent.mkdir(parents=True)
    path.write_text(REDUCE)
    start_ranks(processes, home, SCRIPT, 4, env={"REDUCE": str(path)})
    wait_until_states(home, {0: "stopped", 1: "stopped", 2: "stopped", 3: "running"})
    return started


def groups(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the groups of an answer by their ranks."""
    return {group["ranks"]: group for group in document["groups"]}


@pytest.mark.usefixtures("broker")
def test_where_tells_for_how_long_and_all_threads_by_their_names(home: Path) -> None:
    with dbg_client.connect(timeout=seconds(20)) as connected:
        job = connected.job()
        job.where()
        known = groups(job.where().document)
        assert known["0-2"]["age"] > 0
        # A running rank has an age once it has not moved since the question before; it is listed before it waits.
        deadline = time.monotonic() + seconds(20)
        while known["3"]["age"] is None and time.monotonic() < deadline:
            known = groups(job.where().document)
        assert known["3"]["age"] > 0

    document = ask(home, "where", "all", "--threads")
    assert (document["asked"], document["answered"]) == (4, 4)
    found = {(group["thread"], group["ranks"]) for group in document["groups"]}
    assert found == {("MainThread", "0-2"), ("MainThread", "3"), ("feed", "0-3")}
    tree = attach(home, "where", "all", "--threads").stdout.splitlines()
    assert tree[0] == "where: 4 of 4 ranks answered, 2 different threads"
    assert "thread feed" in tree


async def test_a_step_into_a_collective_waits_for_those_that_are_stopped(home: Path, broker: RunningBroker) -> None:
    assert attach(home, "command", "0", "n").returncode == 0
    step = ask(home, "command", "0", "n", "--timeout", "2")
    assert step["groups"][0]["kind"] == "running"
    async with raw_terminal(broker) as peer:
        await listed(peer, lambda rank: rank.rank == 0 and rank.waits_in == "all_reduce")
    waits = "waits in all_reduce for 2 stopped ranks"
    rows = {line.split()[0].rpartition(":")[2]: line for line in attach(home, "list").stdout.splitlines()[1:]}
    assert waits in rows["0"]
    assert " running " in rows["3"]
    assert f"(@1 {waits}" in attach(home, "where", "0").stdout
