"""Held ranks and kept crashes under srun, whose ranks are on two hosts."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.smoke.test_hold_and_crash import JOB, ONCE, wait_until_kept
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import (
    ask,
    attach,
    texts,
    wait_until_states,
)
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


CRASHED = {0: "held", 1: "stopped", 2: "held"}


def test_a_crash_does_not_end_an_srun_while_it_is_kept(
    slurm: Slurm, processes: Processes, home: Path, tmp_path: Path
) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(JOB)
    command = ["srun", "-K", "-N2", "-n4", "--ntasks-per-node=2", sys.executable, str(script)]
    job = processes.start("srun", command, env=slurm.environment())
    wait_until_kept(home, {**CRASHED, 3: "held"})
    assert texts(ask(home, "eval", "crashed", "batch")) == {"1": "7"}
    assert attach(home, "continue", "crashed").returncode == 0
    # -K ends the others, as soon as the crashed one has ended: by SIGTERM, if they have not ended by themselves.
    assert job.wait(seconds(30)) in (1, 128 + signal.SIGTERM)
