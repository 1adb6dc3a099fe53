"""Chosen ranks stop, and the other ranks wait for them outside of collectives, as long as the stops last."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.smoke.test_hold_and_crash import ONCE
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, wait_until_states
from tests.support.slurm import Slurm
from tests.support.time_unit import seconds


def test_ranks_of_an_srun_are_held_over_hosts(slurm: Slurm, processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(ONCE)
    command = ["srun", "-N2", "-n4", "--ntasks-per-node=2", sys.executable, str(script)]
    job = processes.start("srun", command, env=slurm.environment())
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held", 3: "held"})
    assert attach(home, "continue", "0").returncode == 0
    assert job.wait(seconds(30)) == 0
