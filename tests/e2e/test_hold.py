"""Chosen ranks stop, and the other ranks wait for them outside of collectives, as long as the stops last."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenTerminal
from tests.smoke.test_hold_and_crash import JOB, ONCE, wait_until_kept
from tests.support.broker import RunningBroker, running_broker
from tests.support.launchers import mpirun
from tests.support.processes import Processes
from tests.support.ranks import (
    ask,
    attach,
    attach_command,
    start_ranks,
    states,
    texts,
    wait_until,
    wait_until_states,
    wait_until_stopped,
)
from tests.support.requirements import needs_mpirun
from tests.support.time_unit import seconds


def test_held_ranks_are_released_by_a_word(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 3)
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held"})
    released = attach(home, "release", "held")
    assert released.returncode == 0, released.stderr
    assert [rank.wait() for rank in ranks[1:]] == [0, 0]
    wait_until_states(home, {0: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    assert ranks[0].wait() == 0


def test_without_hold_the_others_go_on_at_once(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 2, env={"DBG_HOLD": "0"})
    assert ranks[1].wait() == 0
    wait_until_states(home, {0: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    assert ranks[0].wait() == 0


@needs_mpirun
def test_ranks_of_an_mpirun_are_held(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(ONCE)
    job = processes.start("mpirun", mpirun(3, sys.executable, str(script)))
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held"})
    assert attach(home, "continue", "0").returncode == 0
    assert job.wait(seconds(30)) == 0


KEPT = {"CI": "", "DBG_LEASE": "600"}
"""Variables that keep crashed ranks, since ranks of test runs and CI jobs are not kept by default."""

FORKS = """\
from multiprocessing import get_context
child = get_context("fork").Process(target=fails)
child.start()
child.join()
sys.exit(child.exitcode)
"""

CRASHED = {0: "held", 1: "stopped", 2: "held"}


def test_what_it_died_of_stays_readable_after_the_job_has_ended(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, JOB, 3)
    wait_until_kept(home, CRASHED)
    assert attach(home, "continue", "crashed").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 1, 0]
    ended = wait_until(
        home, lambda listed: states(listed) == dict.fromkeys(range(3), "exited"), "all exited", listing=["--all"]
    )
    assert [rank["exit"] for rank in ended if rank["rank"] == 1] == [1]
    assert "ValueError: bad batch 7" in attach(home, "list", "--all").stdout
    document = json.loads(attach(home, "where", "1", "--all", "--json").stdout)
    assert [frame["function"] for frame in document["groups"][0]["frames"]] == ["<module>", "step"]


@pytest.mark.parametrize(
    ("script", "status", "function"),
    [
        ("import threading\nthread = threading.Thread(target=fails)\nthread.start()\nthread.join()\n", 0, "fails"),
        (FORKS, 1, "fails"),
        ("try:\n    fails()\nexcept ValueError:\n    dbg_agent.post_mortem()\n", 0, "fails"),
        ("import asyncio\nasync def main():\n    fails()\nasyncio.run(main())\n", 1, "fails"),
    ],
    ids=["thread", "multiprocessing", "post_mortem", "asyncio"],
)
def test_it_is_kept_wherever_it_was_raised(
    processes: Processes, home: Path, script: str, status: int, function: str
) -> None:
    running_broker(processes, home)
    head = (
        "import sys\nimport dbg_agent\ndbg_agent.install(post_mortem=True, lease=600)\n"
        "def fails():\n    local = 5\n    raise ValueError('here')\n"
    )
    (rank,) = start_ranks(processes, home, head + script, 1, env=KEPT)

    def crashed(listed: list[dict[str, object]]) -> bool:
        return [entry["reason"] for entry in listed if entry["state"] == "stopped"] == ["crash"]

    listed = wait_until(home, crashed, "a crash")
    (kept,) = [entry for entry in listed if entry["state"] == "stopped"]
    assert kept["where"]["function"] == function
    assert [*texts(ask(home, "eval", "crashed", "local")).values()] == ["5"]
    assert attach(home, "continue", "crashed").returncode == 0
    assert rank.wait(seconds(20)) == status


def test_ctrl_c_and_exit_are_no_crashes(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    head = "import dbg_agent, sys, time\ndbg_agent.install(post_mortem=True, lease=600)\n"
    (rank,) = start_ranks(processes, home, f"{head}sys.exit(3)\n", 1, name="exits")
    assert rank.wait() == 3
    (rank,) = start_ranks(processes, home, f"{head}print('up', flush=True)\ntime.sleep(600)\n", 1, name="interrupted")
    rank.wait_for_output("up")
    # A Ctrl-C during imports would not show as SIGINT in the exit status.
    wait_until_states(home, {0: "running"})
    rank.signal(signal.SIGINT)
    assert rank.wait() == -signal.SIGINT


@needs_mpirun
def test_a_crash_does_not_end_an_mpirun_while_it_is_kept(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(JOB)
    job = processes.start("mpirun", mpirun(3, sys.executable, str(script)))
    wait_until_kept(home, CRASHED)
    assert texts(ask(home, "eval", "crashed", "batch")) == {"1": "7"}
    assert attach(home, "continue", "crashed").returncode == 0
    assert job.wait(seconds(30)) == 1


MAX_LEASE = f"{seconds(2):g}s"
ENDS = re.compile(r"\(--max-lease\)")

LEASED = """\
import sys
import dbg_agent
dbg_agent.install(post_mortem=True, lease=600)
dbg_agent.set_trace()
print("went on", flush=True)
raise ValueError("bad")
"""


def told(path: Path) -> list[dict[str, Any]]:
    """Return the events so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Return the file that the broker's command writes to, which stands beside it."""
    script = tmp_path / "notify"
    script.write_text('#!/bin/sh\ncat >>"$0.events"\n')
    script.chmod(0o700)
    return tmp_path / "notify.events"


@pytest.fixture
def broker(processes: Processes, home: Path, events: Path) -> RunningBroker:
    command = str(events.with_suffix(""))
    return running_broker(processes, home, "--max-lease", MAX_LEASE, "--on-event", command)


def test_nobody_comes_to_a_stop_nor_to_a_crash(
    broker: RunningBroker, processes: Processes, home: Path, events: Path
) -> None:
    (rank,) = start_ranks(processes, home, LEASED, 1)
    wait_until_stopped(home, 1)
    # The list tells of the lease once the broker has the rank's next report.
    wait_until(home, lambda listed: re.search(r" \d+ s$", listed[0]["detail"]) is not None, "the lease")
    rank.wait_for_output("went on")
    assert rank.wait() == 1
    assert len(ENDS.findall(rank.text("stderr"))) == 2
    broker.process.terminate()
    broker.process.wait()
    kinds = [event["event"] for event in told(events)]
    assert kinds.count("stop") == 1
    assert kinds.count("crash") == 1
    assert "lease" in kinds
    (crash,) = (event for event in told(events) if event["event"] == "crash")
    assert crash["sentence"].endswith("train.py:6 in <module>: ValueError: bad".replace("train.py", "rank_script.py"))


FULL = """\
import os, sys
from dbg_agent import set_trace
unread, full = os.pipe()
os.set_blocking(full, False)
try:
    while True: os.write(full, b"x" * 4096)
except BlockingIOError:
    pass
os.set_blocking(full, True)
os.dup2(full, 2)
set_trace(ranks=0)
print("went on", flush=True)
"""


def test_a_rank_whose_stderr_is_full_can_be_looked_at_and_let_go(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, FULL, 2)
    wait_until_states(home, {0: "stopped", 1: "held"})
    assert texts(ask(home, "eval", "all", "6 * 7")) == {"0-1": "42"}
    assert attach(home, "continue", "0").returncode == 0
    for rank in ranks:
        assert rank.wait() == 0
        assert "went on" in rank.text()


SCRIPT = """\
from dbg_agent import install, set_trace

install()
set_trace()
"""


def test_one_that_was_killed_and_two_that_never_came(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT, 3, world_size=5)
    wait_until_stopped(home, 3)

    all_there = attach(home, "eval", "all", "1 + 1").stdout
    assert all_there.startswith(
        "1 + 1: 3 of 5 ranks have connected: 3-4 never came; 3 answered, 1 value, in <module> rank_script.py:4\n"
    )

    os.kill(ranks[1].pid, signal.SIGSEGV)
    # The rank's guard tells which signal it was, a moment after the broker has seen the end of the process.
    wait_until(home, lambda listed: any(one["exit"] == -11 for one in listed), "the signal", listing=("--all",))

    document = ask(home, "eval", "all", "1 + 1")
    assert (document["asked"], document["answered"]) == (2, 2)
    assert [(one["ranks"], one["state"], one["text"]) for one in document["missing"]] == [
        ("1", "exited", "killed by SIGSEGV"),
        ("3-4", "absent", "never came"),
    ]
    tree = attach(home, "where").stdout.splitlines()[0]
    assert "2 of 3 ranks answered: rank 1 was killed by SIGSEGV " in tree
    assert "3 of 5 ranks have connected: 3-4 never came" in tree
    rows = attach(home, "list").stdout.splitlines()
    assert [row.split()[1] for row in rows[1:]] == ["stopped", "killed", "stopped", "never"]


def test_a_rank_that_does_not_answer_is_named_while_the_others_have(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT, 3)
    wait_until_stopped(home, 3)
    ranks[1].signal(signal.SIGSTOP)
    try:
        terminal = open_terminal(attach_command("eval", "all", "1 + 1", "--timeout", str(seconds(60))))
        terminal.wait_for(re.compile(r"^2 of 3 answered", re.MULTILINE))
    finally:
        ranks[1].signal(signal.SIGCONT)
    assert terminal.exit_status() == 0, terminal.dump()
    assert "waiting" not in "\n".join(terminal.screen)
    assert "1 + 1: 3 of 3 ranks answered, 1 value" in "\n".join(terminal.screen)


def test_when_the_chosen_rank_dies_the_rest_goes_on_with_a_line(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, ONCE, 3)
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held"})
    ranks[0].kill()
    for rank in ranks[1:]:
        rank.wait_for_output("goes on: rank 0 has exited", stream="stderr")
        assert rank.wait() == 0
