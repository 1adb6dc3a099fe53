"""One question to all ranks of a job: real ranks, a real broker, and `dbg-attach` as a script would call it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.launchers import mpirun, torchrun
from tests.support.processes import Child, Processes
from tests.support.ranks import ask, attach, texts, wait_until_states
from tests.support.requirements import needs_mpirun, needs_torch
from tests.support.slurm import Slurm
from tests.support.time_unit import seconds

LAUNCHED = """\
import os
import time
import dbg_agent
dbg_agent.install()
count = 0

def train():
    global count
    print("trains", flush=True)
    while not os.access(os.environ["DBG_HOME"] + "/end", os.F_OK):
        count += 1
        time.sleep(0.01)

train()
"""


def interview(home: Path, n: int, job: Child, within: float | None = None) -> None:
    """Break into all ranks of a launched job, ask them, move them, and let the job end well."""
    everyone = f"0-{n - 1}"
    wait_until_states(home, dict.fromkeys(range(n), "running"), within)
    # A rank is listed before its script goes on; only in ``train`` do all have the same stack, at lines that differ.
    job.wait_for_output(rf"(?:trains[\s\S]*){{{n}}}", within)
    where = ask(home, "where", "all")
    assert where["answered"] == n
    stacks = {tuple(frame["function"] for frame in group["frames"]) for group in where["groups"]}
    assert stacks == {("<module>", "train")}
    assert texts(ask(home, "eval", "all", "count >= 0", "--live")) == {everyone: "True"}
    # Ranks in their short sleep stop when it returns, so all are stopped a moment later.
    assert ask(home, "interrupt", "all", "-y")["asked"] == n
    wait_until_states(home, dict.fromkeys(range(n), "stopped"))
    assert texts(ask(home, "eval", "all", "count >= 0")) == {everyone: "True"}
    moved = ask(home, "command", "all", "n")
    assert (moved["asked"], moved["answered"]) == (n, n)
    assert texts(ask(home, "command", "all", "p count >= 0")) == {everyone: "True"}
    assert attach(home, "continue", "all").returncode == 0
    (home / "end").touch()
    assert job.wait(seconds(30)) == 0, job.tail()


@pytest.fixture
def launched(tmp_path: Path) -> str:
    """Return the path of a script that trains until it is told to end."""
    script = tmp_path / "train.py"
    script.write_text(LAUNCHED)
    return str(script)


@needs_torch
@pytest.mark.timeout(seconds(120))
def test_all_of_it_under_torchrun(processes: Processes, home: Path, launched: str) -> None:
    running_broker(processes, home)
    job = processes.start("torchrun", torchrun(3, launched), env={**os.environ, "OMP_NUM_THREADS": "1"})
    interview(home, 3, job, seconds(60))


@needs_mpirun
def test_all_of_it_under_mpirun(processes: Processes, home: Path, launched: str) -> None:
    running_broker(processes, home)
    interview(home, 3, processes.start("mpirun", mpirun(3, sys.executable, launched)))


def test_all_of_it_under_srun(slurm: Slurm, processes: Processes, home: Path, launched: str) -> None:
    running_broker(processes, home)
    command = ["srun", "-N2", "-n4", "--ntasks-per-node=2", sys.executable, launched]
    interview(home, 4, processes.start("srun", command, env=slurm.environment()))
