"""Autostart under real launchers: only ranks take part, without a change of code; stops are named from outside."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from dbg_agent.rank.rank import WAITS_ON
from tests.e2e.test_autostart import HERE, ONCE, TOTAL, check_ranks, environment, let_end, write_program
from tests.support.broker import running_broker
from tests.support.launchers import mpirun, torchrun
from tests.support.processes import Processes
from tests.support.ranks import attach_list, wait_until_stopped
from tests.support.requirements import needs_mpirun, needs_torch
from tests.support.slurm import Slurm
from tests.support.time_unit import seconds

TORCH_SECONDS = 120.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""


JOB_SCRIPT = """\
{python} -m pip --version >/dev/null
{python} -c 'import json'
exec "$@"
"""


def test_a_stop_that_was_asked_for_waits_for_a_broker_that_is_suspended(
    processes: Processes, home: Path, tmp_path: Path
) -> None:
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


@needs_mpirun
def test_a_console_script_under_mpirun(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "recipe")
    (tmp_path / "job.sh").write_text(JOB_SCRIPT.format(python=sys.executable))
    command = mpirun(2, "sh", str(tmp_path / "job.sh"), str(program), "lm")
    job = processes.start("mpirun", command, env=environment(""))
    assert job.wait() == 0
    assert sorted(rank["address"] for rank in attach_list(home, "--all")) == [f"{HERE}:0", f"{HERE}:1"]


def test_a_script_under_srun(slurm: Slurm, processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    (tmp_path / "job.sh").write_text(JOB_SCRIPT.format(python=sys.executable))
    command = ["srun", "-N2", "-n2", "sh", str(tmp_path / "job.sh"), sys.executable, str(program)]
    env = environment(f"train.py:{ONCE}", slurm.environment())
    job = processes.start("srun", command, env=env)
    check_ranks(home, ["node1:0", "node2:1"], program)
    let_end(home, job, 2)


@needs_torch
@pytest.mark.timeout(seconds(2 * TORCH_SECONDS))
def test_a_script_under_torchrun_in_a_step_of_srun(
    slurm: Slurm, processes: Processes, home: Path, tmp_path: Path
) -> None:
    running_broker(processes, home)
    program = write_program(tmp_path, "train.py")
    command = ["srun", "-N1", "-n1", *torchrun(2, str(program))]
    env = environment(f"train.py:{ONCE}", slurm.environment())
    job = processes.start("srun", command, env=env)
    check_ranks(home, ["node1:0", "node1:1"], program, seconds(TORCH_SECONDS))
    let_end(home, job, 2, seconds(TORCH_SECONDS))
