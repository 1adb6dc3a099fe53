"""Autostart under real launchers, and the processes that a rank starts."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from dbg_agent.rank.rank import WAITS_ON
from tests.e2e.test_starts import HERE, TOTAL, WORKERS, environment, let_end, write, write_program
from tests.e2e.test_starts import as_by_run as environment_of
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, attach_list, wait_until, wait_until_stopped


def test_a_requested_stop_waits_for_a_suspended_broker(processes: Processes, home: Path, tmp_path: Path) -> None:
    broker = running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    variables: dict[str, Any] = {"RANK": "0", "WORLD_SIZE": "1", "DBG_HOME": str(home), "DBG_CONNECT_TIMEOUT": "0.5"}
    broker.process.signal(signal.SIGSTOP)
    try:
        job = processes.start(
            "job", [sys.executable, str(program)], env=environment(f"{program}:{TOTAL}, step == 1", **variables)
        )
        job.wait_for_output(WAITS_ON, stream="stderr")
    finally:
        broker.process.signal(signal.SIGCONT)
    (stopped,) = wait_until_stopped(home, 1)
    assert stopped["where"]["line"] == TOTAL
    let_end(home, job, 1)
    assert "passed without stopping" not in job.text("stderr")


def test_children_of_a_rank_with_a_launcher_have_its_number(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write(tmp_path, WORKERS)
    place = {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "20000"}
    job = processes.start("train", [sys.executable, str(program), "spawn"], env=environment_of(**place))
    stopped = wait_until_stopped(home, 2)
    assert sorted(rank["address"] for rank in stopped) == [f"{HERE}:3.1", f"{HERE}:3.2"]
    attach(home, "continue", "stopped")
    assert job.wait() == 0


def test_children_keep_the_breakpoint_setting_of_the_user(processes: Processes, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'breakpoint()'])\n")
    for more in ({"PYTHONBREAKPOINT": "0"}, {"DBG_CLASSIC": "0"}):
        # No broker runs, so a child whose breakpoint() called the agent would wait for one.
        env = environment_of(DBG_HOME=str(tmp_path), DBG_CONNECT_TIMEOUT="60", **more)
        job = processes.start(next(iter(more)), [sys.executable, str(script)], env=env)
        assert job.wait() == 0
        assert ("bdb.BdbQuit" in job.text("stderr")) == ("DBG_CLASSIC" in more)


LIGHTNING = """\
import os, subprocess, sys, threading

def launch():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29502", NODE_RANK="0", LOCAL_RANK="0", WORLD_SIZE="2")
    # As Lightning does: the same program again, with nothing changed but its local rank.
    return subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "LOCAL_RANK": "1"})

def train():
    subprocess.run([sys.executable, __file__.replace("train", "quiet")], check=True)
    open(os.environ["GATE"]).close()

other = launch() if "LOCAL_RANK" not in os.environ else None
train()
sys.exit(other.wait() if other else 0)
"""


def test_ranks_started_by_the_first_rank_belong_to_its_job(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write(tmp_path, LIGHTNING)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = processes.start("train", [sys.executable, str(program)], env=environment_of(GATE=str(gate)))

    def are_one_job(listed: list[dict[str, Any]]) -> bool:
        addresses = sorted(rank["address"] for rank in listed)
        jobs = {(rank["job"], rank["run"], rank["world_size"]) for rank in listed}
        return addresses == [f"{HERE}:0", f"{HERE}:1"] and len(jobs) == 1

    wait_until(home, are_one_job, "two ranks of one job", listing=("--all",))
    where = ask(home, "where", "all")
    assert (where["asked"], where["answered"]) == (2, 2)
    assert {frame["function"] for group in where["groups"] for frame in group["frames"]} >= {"train"}
    opened = os.open(gate, os.O_RDWR)
    assert job.wait() == 0, job.tail()
    os.close(opened)
    assert are_one_job(attach_list(home, "--all"))
