"""``dbg-attach run`` of real launchers: the next run stops at the same line with no key; status and end."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from tests.support.launchers import mpirun, torchrun
from tests.support.ranks import attach, attach_list, wait_until, wait_until_stopped
from tests.support.requirements import needs_mpirun, needs_torch
from tests.support.runs import (
    PROGRAM,
    STATUS,
    STEP,
    Directory,
    command_line,
    ends_within,
    line_of,
    rank_at_prompt,
    wait_for_prompt,
)
from tests.support.sessions import DETACH
from tests.support.slurm import Slurm
from tests.support.time_unit import seconds

LINE = line_of(STEP)
ONCE = ("--stop-at", f"train.py:{LINE}, step == 1")

ENDS_WELL = PROGRAM.replace(f"sys.exit({STATUS})", "sys.exit(0)")
"""The program for tests where one rank ends while the other stays stopped: when a rank fails, mpirun sends SIGTERM to
all other ranks within a second."""

TORCH_SECONDS = 120.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""

PATIENCE = seconds(60)
"""Seconds for a launcher to start or to end its ranks."""


def check_cycle(directory: Directory, command: list[str], *, status: int, patience: float) -> None:
    """Go to a stop in a first run; fail unless the second run is there with no key, and both runs end completely."""
    first = directory.start(*ONCE, "--", *command)
    ranks = wait_until_stopped(directory.home, 2, patience)
    assert {rank["where"]["line"] for rank in ranks} == {LINE}
    rank_at_prompt(first, patience)
    attach(directory.home, "continue", "all")
    assert first.exit_status(patience) == status
    (output,) = directory.outputs()
    assert output.read_text().count("ends") == 2

    directory.write(f"{PROGRAM}# an edit\n")
    again = directory.run(*ONCE, "--", *command)
    rank_at_prompt(again, patience)
    wait_until_stopped(directory.home, 2, patience)
    attach(directory.home, "continue", "all")
    wait_until(directory.home, lambda ranks: not any(rank["state"] == "stopped" for rank in ranks), "none stopped")
    assert again.exit_status(patience) == status
    assert directory.left_behind(first, again) == []


@pytest.mark.parametrize(
    ("name", "status"),
    [
        pytest.param("mpirun", STATUS, marks=needs_mpirun),
        pytest.param("srun", STATUS, marks=pytest.mark.xdist_group("slurm")),
        pytest.param("torchrun", 1, marks=needs_torch),
    ],
)
@pytest.mark.timeout(seconds(3 * TORCH_SECONDS))
def test_the_next_run_stops_at_the_same_line(
    request: pytest.FixtureRequest, directory: Directory, name: str, status: int
) -> None:
    if name == "srun":
        directory.environ = request.getfixturevalue("slurm").environment()
    commands = {
        "mpirun": mpirun(2, sys.executable, "train.py"),
        "srun": ["srun", "-N2", "-n2", sys.executable, "train.py"],
        "torchrun": torchrun(2, "train.py"),
    }
    check_cycle(directory, commands[name], status=status, patience=seconds(TORCH_SECONDS))


def test_sbatch(directory: Directory, slurm: Slurm) -> None:
    directory.environ = slurm.environment()
    (directory.path / "job.sh").write_text(f"#!/bin/sh\nexec srun -n2 {sys.executable} train.py\n")
    terminal = directory.start(*ONCE, "--", "sbatch", "-W", "-N2", "-n2", "-o", "job.out", "job.sh")
    wait_until_stopped(directory.home, 2, PATIENCE)
    rank_at_prompt(terminal, PATIENCE)
    attach(directory.home, "continue", "all")
    assert terminal.exit_status(PATIENCE) == STATUS
    assert (directory.path / "job.out").read_text().count("ends") == 2


@needs_mpirun
def test_chosen_ranks_stop_and_others_are_followed(directory: Directory) -> None:
    terminal = directory.start(*ONCE, "--ranks", "1", "--", *mpirun(2, sys.executable, "train.py"))
    wait_for_prompt(terminal, LINE, 1, PATIENCE)
    wait_until(
        directory.home, lambda ranks: sorted(rank["state"] for rank in ranks) == ["held", "stopped"], "rank 0 held"
    )
    terminal.send("c")
    assert terminal.exit_status(PATIENCE) == STATUS

    directory.write(ENDS_WELL)
    terminal = directory.start(*ONCE, "--rank-filter", "1", "--", *mpirun(2, sys.executable, "train.py"))
    wait_for_prompt(terminal, LINE, 1, PATIENCE)
    wait_until_stopped(directory.home, 2)
    terminal.send("c")
    wait_until(directory.home, lambda ranks: [rank["rank"] for rank in ranks if rank["where"]] == [0], "rank 0 alone")
    terminal.wait_for(lambda seen: "(Pdb)" not in seen.row(-1))
    attach(directory.home, "continue", "all")
    assert terminal.exit_status(PATIENCE) == 0


@needs_mpirun
def test_no_broker_is_left_after_a_launcher_is_killed(directory: Directory) -> None:
    terminal = directory.start(*ONCE, "--", *mpirun(2, sys.executable, "train.py"))
    wait_until_stopped(directory.home, 2, PATIENCE)
    rank_at_prompt(terminal)
    (launcher,) = [pid for pid in directory.processes.strays() if command_line(pid).startswith("mpirun")]
    terminal.send(DETACH)
    terminal.wait_for("Enter")
    os.kill(launcher, signal.SIGKILL)
    assert terminal.exit_status(PATIENCE) == 128 + signal.SIGKILL
    if attach_list(directory.home):
        attach(directory.home, "kill", "all", "-y")
    terminal.end()
    wait_until_none_is_left(directory)


def wait_until_none_is_left(directory: Directory) -> None:
    """Wait for the end of the unused broker; fail if another process is left."""
    for pid in directory.processes.strays():
        if "--while-used" in command_line(pid):
            assert ends_within(pid, seconds(30)), command_line(pid)
    assert directory.left_behind() == []
