"""Questions to ranks that don't answer, that run, that are stepped, or that somebody sits at."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import sit_in_pudb
from tests.support.ranks import ask, attach, start_ranks, states, texts, wait_until, wait_until_states
from tests.support.time_unit import seconds

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


def test_running_ranks_are_asked_only_live(processes: Processes, home: Path) -> None:
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
