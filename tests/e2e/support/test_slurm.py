"""The emulated cluster runs tasks on two nodes and batch scripts, and cancels the jobs that a test leaves behind."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.slurm import Slurm

WHO = "import os; print(os.environ['SLURMD_NODENAME'], os.environ['SLURM_PROCID'], os.environ['SLURM_STEP_NUM_TASKS'])"


def test_srun_runs_tasks_on_both_nodes(slurm: Slurm) -> None:
    result = slurm.srun("-N2", "-n4", sys.executable, "-c", WHO)
    assert result.stderr == ""
    tasks = [line.split() for line in result.stdout.splitlines()]
    assert {node for node, _, _ in tasks} == {"node1", "node2"}
    assert sorted((rank, size) for _, rank, size in tasks) == [("0", "4"), ("1", "4"), ("2", "4"), ("3", "4")]


def test_a_batch_script_is_run_and_waited_for(slurm: Slurm, tmp_path: Path) -> None:
    script = tmp_path / "job.sbatch"
    script.write_text("#!/bin/sh\nsrun hostname\nexit 3\n")
    job = slurm.sbatch("-N2", "-n2", f"--output={tmp_path}/out", str(script))
    assert slurm.wait_for_job(job) == 3
    assert len((tmp_path / "out").read_text().split()) == 2


def test_a_job_left_behind_is_cancelled(slurm: Slurm) -> None:
    slurm.sbatch("--output=/dev/null", "--wrap", "sleep 1000")
    slurm.cancel_all()
    assert slurm.run("squeue", "-h").stdout == ""
