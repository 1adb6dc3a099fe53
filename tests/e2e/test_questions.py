"""Questions to ranks that don't answer, run, are stepped, wait for others, or hang."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import dbg_client
from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import DRAWN, sit_in_pudb
from tests.support.ranks import ask, attach, attach_command, start_ranks, states, texts, wait_until, wait_until_states
from tests.support.raw_terminal import listed, raw_terminal
from tests.support.sessions import detach
from tests.support.time_unit import seconds
from tests.support.tokens import written_tokens

SCRIPT = """\
import threading
import dbg_agent
dbg_agent.install()

def work(batch):
    loss = 0.25
    dbg_agent.set_trace()
    first = 1
    second = 2
    print("went on", first, second)

work(batch=[1, 2])
"""


@pytest.fixture
def job(processes: Processes, home: Path) -> list[Child]:
    """Two ranks that are stopped in ``work``."""
    running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT, 2)
    wait_until_states(home, {0: "stopped", 1: "stopped"})
    return ranks


def end(home: Path, job: list[Child]) -> None:
    assert attach(home, "continue", "all").returncode == 0
    assert [rank.wait() for rank in job] == [0] * len(job)


def test_a_rank_that_cant_answer_is_named_at_the_deadline(home: Path, job: list[Child]) -> None:
    job[1].signal(signal.SIGSTOP)
    document = ask(home, "eval", "all", "loss", "--timeout", "2")
    assert document["answered"] == 1
    (silent,) = [group for group in document["groups"] if group["kind"] == "silent"]
    assert silent["id"] == "@?"
    assert silent["ranks"] == "1"
    assert attach(home, "eval", "all", "loss", "--timeout", "2").returncode == 6
    job[1].signal(signal.SIGCONT)
    end(home, job)


def test_a_question_leaves_an_open_debugger_and_its_driver_alone(
    home: Path, job: list[Child], open_terminal: OpenTerminal
) -> None:
    terminal = sit_in_pudb(open_terminal, "0")
    before = terminal.dump()
    assert texts(ask(home, "eval", "0", "batch")) == {"0": "[1, 2]"}
    assert texts(ask(home, "command", "0", "p loss * 2")) == {"0": "0.5"}
    assert terminal.dump() == before
    assert [rank["driver"] is not None for rank in wait_until(home, bool, "a rank") if rank["rank"] == 0] == [True]
    terminal.send(b"\x1dd")
    assert terminal.exit_status() == 0
    end(home, job)


def test_running_ranks_answer_only_live_questions(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = """\
import dbg_agent, os
dbg_agent.install()
count = 0
while not os.path.exists("stop"):
    count += 1
"""
    job = start_ranks(processes, home, script, 2)
    wait_until_states(home, {0: "running", 1: "running"})
    document = ask(home, "eval", "all", "count > 0")
    assert {group["kind"] for group in document["groups"]} == {"running"}
    assert texts(ask(home, "eval", "all", "count > 0", "--live")) == {"0-1": "True"}
    assert states(wait_until(home, bool, "ranks")) == {0: "running", 1: "running"}
    for number, rank in enumerate(job):
        (home / "homes" / f"rank{number}" / "stop").touch()
        assert rank.wait(seconds(20)) == 0


REDUCE = """\
import threading

def all_reduce():
    threading.Event().wait()
"""

BEFORE_A_COLLECTIVE = """\
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
def four_ranks(processes: Processes, home: Path) -> RunningBroker:
    """A broker with four ranks, of which the last one runs and the others are stopped."""
    started = running_broker(processes, home)
    path = home / "torch/distributed/distributed_c10d.py"
    path.parent.mkdir(parents=True)
    path.write_text(REDUCE)
    start_ranks(processes, home, BEFORE_A_COLLECTIVE, 4, env={"REDUCE": str(path)})
    wait_until_states(home, {0: "stopped", 1: "stopped", 2: "stopped", 3: "running"})
    return started


def groups(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the groups of an answer by their ranks."""
    return {group["ranks"]: group for group in document["groups"]}


@pytest.mark.usefixtures("four_ranks")
def test_where_shows_durations_and_all_threads_by_name(home: Path) -> None:
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


async def test_a_step_into_a_collective_waits_for_the_stopped_ranks(home: Path, four_ranks: RunningBroker) -> None:
    assert attach(home, "command", "0", "n").returncode == 0
    step = ask(home, "command", "0", "n", "--timeout", "2")
    assert step["groups"][0]["kind"] == "running"
    async with raw_terminal(four_ranks) as peer:
        await listed(peer, lambda rank: rank.rank == 0 and rank.waits_in == "all_reduce")
    waits = "waits in all_reduce for 2 stopped ranks"
    rows = {line.split()[0].rpartition(":")[2]: line for line in attach(home, "list").stdout.splitlines()[1:]}
    assert waits in rows["0"]
    assert " running " in rows["3"]
    assert f"(@1 {waits}" in attach(home, "where", "0").stdout


OPEN = "\x1d:"
"""The prefix, and the key behind it that opens the command line."""

HANGS = """\
import os, threading
import dbg_agent
dbg_agent.install()

first, second = threading.Lock(), threading.Lock()
both = threading.Barrier(2)

def take(mine, other):
    with mine:
        both.wait()
        with other:
            pass

def read_shard():
    with open(os.environ["SHARD"]) as shard:
        shard.read()

rank = os.environ["RANK"]
if rank == "0":
    dbg_agent.set_trace()
elif rank == "1":
    read_shard()
else:
    threading.Thread(target=take, args=(second, first), name="pump", daemon=True).start()
    take(first, second)
"""
"""Rank 0 stops, rank 1 opens a file that nobody writes to, rank 2 has a deadlock, and rank 3 never comes."""


def test_why_answers_a_watcher_and_in_a_session(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    running_broker(processes, home)
    shard = home / "shard"
    os.mkfifo(shard)
    start_ranks(processes, home, HANGS, 3, env={"SHARD": str(shard), "WORLD_SIZE": "4"})
    wait_until_states(home, {0: "stopped", 1: "running", 2: "running"})

    result = attach(home, "why", "--json", env={"DBG_TOKEN": written_tokens(home)["watcher"]})

    document = json.loads(result.stdout)
    verdicts = {one["kind"]: one for one in document["verdicts"]}
    assert (result.returncode, document["asked"], document["answered"]) == (1, 4, 3), result
    assert verdicts["absent"]["ranks"] == "3"
    assert verdicts["deadlock"]["ranks"] == "2"
    assert [line.split()[1] for line in verdicts["deadlock"]["evidence"] if line.startswith("thread")] == [
        "MainThread",
        "pump",
    ]
    assert "0" in verdicts["waiting"]["ranks"]
    terminal = open_terminal(attach_command("0"), cols=200)
    terminal.wait_for(DRAWN)
    terminal.send(OPEN)
    terminal.wait_for("Esc leaves")
    terminal.send("why\r")
    terminal.wait_for(verdicts["deadlock"]["sentence"])
    terminal.send("q")
    terminal.wait_for(DRAWN)
    detach(terminal)
