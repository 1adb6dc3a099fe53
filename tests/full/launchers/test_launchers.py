"""What holds under each launcher: ranks are listed, attached to, asked, held, and kept when one crashes.

The worker scripts do without torch wherever torch adds nothing but time.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenTerminal
from tests.smoke.test_hold_and_crash import JOB, ONCE, wait_until_kept
from tests.support.broker import running_broker
from tests.support.launchers import mpirun, torchrun
from tests.support.processes import Child, Processes
from tests.support.ranks import (
    ask,
    attach,
    attach_command,
    attach_list,
    texts,
    wait_until,
    wait_until_states,
    wait_until_stopped,
)
from tests.support.requirements import needs_mpirun, needs_torch
from tests.support.sessions import detach, open_pudb
from tests.support.slurm import Slurm
from tests.support.time_unit import seconds

DDP = Path(__file__).parents[3] / "examples/ddp_train.py"

HERE = os.uname().nodename.partition(".")[0]

TORCH_SECONDS = 120.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""

pytestmark = pytest.mark.timeout(seconds(2 * TORCH_SECONDS))

# PuDB's variables show ``who``, the launcher's name for the rank, so that a test sees which rank a terminal is at.
# A whole line is one write, since launchers pass on the output of ranks in the pieces in which it comes.
SCRIPT = """\
import os
from dbg_agent import set_trace
who = "{who}".format_map(os.environ)
set_trace()
os.write(1, f"{{who}} went on\\n".encode())
"""


@dataclass(frozen=True)
class Launcher:
    """How ranks are started: the command around a script, the addresses that they get, and how each knows its rank."""

    command: Callable[[str], Sequence[str]]
    addresses: tuple[str, ...]
    who: str
    local_ranks: tuple[int, ...]
    crashed: tuple[int, ...] = (1,)
    """Statuses with which a launcher ends when a rank has failed."""


LAUNCHERS = {
    "torchrun": Launcher(lambda script: torchrun(2, script), (f"{HERE}:0", f"{HERE}:1"), "{RANK}", (0, 1)),
    "mpirun": Launcher(
        lambda script: mpirun(3, sys.executable, script),
        (f"{HERE}:0", f"{HERE}:1", f"{HERE}:2"),
        "{OMPI_COMM_WORLD_RANK}",
        (0, 1, 2),
    ),
    # Two ranks are asked for on each node, or SLURM might give three to the first. -K ends the others as soon as one
    # has failed: by SIGTERM, if they have not ended by themselves.
    "srun": Launcher(
        lambda script: ["srun", "-K", "-N2", "-n4", "--ntasks-per-node=2", sys.executable, script],
        ("node1:0", "node1:1", "node2:2", "node2:3"),
        "{SLURM_PROCID}",
        (0, 1, 0, 1),
        (1, 128 + signal.SIGTERM),
    ),
}


class Launch:
    """A launcher of the table, which starts a job."""

    def __init__(self, name: str, processes: Processes, folder: Path, environ: dict[str, str]) -> None:
        self.launcher = LAUNCHERS[name]
        self.count = len(self.launcher.addresses)
        self.everyone = f"0-{self.count - 1}"
        self.script = folder / "train.py"
        self._name, self._processes, self._environ = name, processes, environ

    def start(self, text: str) -> Child:
        """Start a job of these ranks."""
        self.script.write_text(text)
        command = self.launcher.command(str(self.script))
        return self._processes.start(self._name, command, env={**self._environ, "OMP_NUM_THREADS": "1"})

    def wait_until(self, home: Path, first: str, others: str) -> list[dict[str, Any]]:
        """Wait until rank 0 is in one state and all others in another one."""
        wanted = {rank: others if rank else first for rank in range(self.count)}
        return wait_until_states(home, wanted, seconds(TORCH_SECONDS))


@pytest.fixture(
    params=[
        pytest.param("torchrun", marks=needs_torch),
        pytest.param("mpirun", marks=needs_mpirun),
        pytest.param("srun", marks=pytest.mark.xdist_group("slurm")),
    ]
)
def launch(request: pytest.FixtureRequest, processes: Processes, home: Path, tmp_path: Path) -> Launch:
    """Each launcher, with a broker for its ranks."""
    running_broker(processes, home)
    environ = request.getfixturevalue("slurm").environment() if request.param == "srun" else dict(os.environ)
    return Launch(request.param, processes, tmp_path, environ)


def test_every_rank_is_listed_with_its_numbers_and_can_be_attached(
    launch: Launch, home: Path, open_terminal: OpenTerminal
) -> None:
    launcher = launch.launcher
    job = launch.start(SCRIPT.format(who=launcher.who))
    stopped = wait_until_stopped(home, launch.count, seconds(TORCH_SECONDS))
    numbers = [(rank["address"], rank["rank"], rank["local_rank"], rank["world_size"]) for rank in stopped]
    ranks = range(launch.count)
    assert numbers == [(launcher.addresses[rank], rank, launcher.local_ranks[rank], launch.count) for rank in ranks]
    assert [rank["host"] for rank in stopped] == [address.partition(":")[0] for address in launcher.addresses]
    assert [rank["where"] for rank in stopped] == [place(launch.script)] * launch.count
    assert len({(rank["job"], rank["run"]) for rank in stopped}) == 1
    for number, address in enumerate(launcher.addresses):
        terminal = open_pudb(open_terminal, address, address)
        terminal.wait_for(f"who: '{number}'")
        detach(terminal)
    assert [(rank["state"], rank["engine"]) for rank in attach_list(home)] == [("stopped", "pudb")] * launch.count
    continue_all(home)
    ends_well(job, *map(str, ranks))


def test_other_ranks_are_held_while_the_chosen_rank_is_stopped(launch: Launch, home: Path) -> None:
    job = launch.start(ONCE)
    launch.wait_until(home, "stopped", "held")
    assert attach(home, "continue", "0").returncode == 0
    assert job.wait(seconds(60)) == 0


def test_a_crash_does_not_end_the_job_while_it_is_kept(launch: Launch, home: Path) -> None:
    job = launch.start(JOB)
    wait_until_kept(home, {**dict.fromkeys(range(launch.count), "held"), 1: "stopped"}, seconds(TORCH_SECONDS))
    assert texts(ask(home, "eval", "crashed", "batch")) == {"1": "7"}
    assert attach(home, "continue", "crashed").returncode == 0
    assert job.wait(seconds(60)) in launch.launcher.crashed
    assert not [rank for rank in attach_list(home) if rank["state"] != "exited"]


def place(script: Path, function: str = "<module>") -> dict[str, Any]:
    """Return where a rank of this script stops, as JSON lists it."""
    lines = [line.strip() for line in script.read_text().splitlines()]
    return {"file": str(script), "line": lines.index("set_trace()") + 1, "function": function}


def continue_all(home: Path, target: str = "all") -> None:
    """Resume every stop of ``target``."""
    result = attach(home, "continue", target)
    assert result.returncode == 0, result.stderr


def ends_well(job: Child, *went_on: str) -> None:
    """Wait for the job's end and check that each rank has gone on."""
    assert job.wait(seconds(TORCH_SECONDS)) == 0, job.tail()
    assert sorted(re.findall(r"^(.+) went on$", job.text(), re.MULTILINE)) == sorted(went_on)


@needs_torch
def test_the_ddp_example_stops_in_its_training_loop(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    # Ranks with one thread per core each would only wait for each other.
    env = dict(os.environ) | {"OMP_NUM_THREADS": "1"}
    job = processes.start("torchrun", torchrun(2, str(DDP), "--stop-at-step", "3", "--epochs", "1"), env=env)
    stopped = wait_until_stopped(home, 2, seconds(TORCH_SECONDS))
    assert [rank["where"] for rank in stopped] == [place(DDP, "train")] * 2
    terminal = open_pudb(open_terminal, stopped[1]["address"], stopped[1]["address"], timeout=seconds(60))
    terminal.wait_for("DistributedDataParallel")
    detach(terminal)
    continue_all(home)
    assert job.wait(seconds(TORCH_SECONDS)) == 0
    # The text may be within a line: under torchrun a rank writes text and line end apart.
    assert sorted(re.findall(r"rank (\d) of 2: loss", job.text())) == ["0", "1"]


def candidates_for(open_terminal: OpenTerminal, target: str) -> list[str]:
    """Attach to a target that fits several ranks, and return the targets that the refusal names instead."""
    terminal = open_terminal(attach_command(target), cols=300)
    assert terminal.exit_status() == 2, terminal.dump()
    shown = "\n".join(terminal.screen)
    assert f"'{target}'" in shown, terminal.dump()
    (named,) = re.findall(r"fits several ranks: ([^;]+);", shown)
    return str(named).split(", ")


def names_of_each(open_terminal: OpenTerminal, candidates: list[str], address: str) -> list[str]:
    """Attach to each candidate as it was printed, and return the name of the rank that it leads to."""
    names = []
    for candidate in candidates:
        terminal = open_pudb(open_terminal, candidate, address)
        terminal.wait_for(re.compile("who: '.+'"))
        names += re.findall("who: '(.+)'", "\n".join(terminal.screen))
        detach(terminal)
    return names


def stopped_jobs(listed: list[dict[str, Any]]) -> set[str]:
    """Return the jobs that have a stopped rank."""
    return {rank["job"] for rank in listed if rank["state"] == "stopped"}


TWO_STEPS = """
srun -N2 -n2 --overlap "$@" & first=$!
srun -N2 -n2 --overlap "$@" && wait "$first"
"""


def test_two_sruns_in_one_allocation_stay_apart(
    slurm: Slurm, processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(who="{SLURM_STEP_ID}:{SLURM_PROCID}"))
    command = ["salloc", "-N2", "-n2", "sh", "-c", TWO_STEPS, "sh", sys.executable, str(script)]
    job = processes.start("salloc", command, env=slurm.environment())
    stopped = wait_until_stopped(home, 4, seconds(40))
    allocation = stopped[0]["job"].partition(".")[0]
    assert {(rank["job"], rank["address"], rank["world_size"]) for rank in stopped} == {
        (f"{allocation}.{step}", address, 2) for step in (0, 1) for address in ("node1:0", "node2:1")
    }
    candidates = candidates_for(open_terminal, "0")
    assert candidates == [f"{allocation}.0/0", f"{allocation}.1/0"]
    assert names_of_each(open_terminal, candidates, "node1:0") == ["0:0", "1:0"]
    continue_all(home, f"{allocation}.0/all")
    wait_until(home, lambda listed: stopped_jobs(listed) == {f"{allocation}.1"}, "one step without stops")
    continue_all(home)
    ends_well(job, "0:0", "0:1", "1:0", "1:1")


TWO_TORCHRUNS = """\
#!/bin/sh
LAUNCH=a "$@" & first=$!
LAUNCH=b "$@" && wait "$first"
"""


@needs_torch
def test_two_torchruns_in_one_allocation_stay_apart(
    slurm: Slurm, processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(who="{LAUNCH}:{RANK}"))
    batch = tmp_path / "job.sbatch"
    batch.write_text(TWO_TORCHRUNS)
    log = tmp_path / "job.log"
    job = slurm.sbatch("-N1", f"--output={log}", str(batch), *torchrun(2, str(script)))
    stopped = wait_until_stopped(home, 4, seconds(TORCH_SECONDS))
    # The scheduler's job is one, with two runs in it.
    assert {rank["job"] for rank in stopped} == {job}
    assert len({rank["run"] for rank in stopped}) == 2
    candidates = candidates_for(open_terminal, "0")
    assert len(candidates) == 2
    assert sorted(names_of_each(open_terminal, candidates, "node1:0")) == ["a:0", "b:0"]
    continue_all(home)
    assert slurm.wait_for_job(job) == 0
    assert sorted(re.findall(r"^(.+) went on$", log.read_text(), re.MULTILINE)) == ["a:0", "a:1", "b:0", "b:1"]
