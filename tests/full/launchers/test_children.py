"""Processes that a rank starts: those that are ranks of their own, its children of every start method, and the rest."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.e2e.test_children import HERE, WORKERS, environment, write
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, wait_until_stopped


def test_children_of_a_rank_with_a_launcher_have_its_number(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write(tmp_path, WORKERS)
    place = {"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "20000"}
    job = processes.start("train", [sys.executable, str(program), "spawn"], env=environment(**place))
    stopped = wait_until_stopped(home, 2)
    assert sorted(rank["address"] for rank in stopped) == [f"{HERE}:3.1", f"{HERE}:3.2"]
    attach(home, "continue", "stopped")
    assert job.wait() == 0


def test_breakpoint_stays_what_the_user_says_in_children(processes: Processes, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'breakpoint()'])\n")
    for more in ({"PYTHONBREAKPOINT": "0"}, {"DBG_BREAKPOINT": "0"}):
        # No broker runs, so a child whose breakpoint() called the agent would wait for one.
        env = environment(DBG_HOME=str(tmp_path), DBG_CONNECT_TIMEOUT="60", **more)
        job = processes.start(next(iter(more)), [sys.executable, str(script)], env=env)
        assert job.wait() == 0
        assert ("bdb.BdbQuit" in job.text("stderr")) == ("DBG_BREAKPOINT" in more)
