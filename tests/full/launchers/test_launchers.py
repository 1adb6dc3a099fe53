"""Ranks of real launchers: each is listed with its launcher's numbers, and can be attached to by its address.

The worker scripts do without torch wherever torch adds nothing but time.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.launchers import mpirun, torchrun
from tests.support.processes import Child, Processes
from tests.support.ranks import attach, attach_command, attach_list, wait_until, wait_until_stopped
from tests.support.requirements import needs_mpirun, needs_torch
from tests.support.sessions import detach, open_pudb
from tests.support.slurm import Slurm
from tests.support.time_unit import seconds

DDP = Path(__file__).parents[3] / "examples/ddp_train.py"

HERE = os.uname().nodename.partition(".")[0]

TORCH_SECONDS = 120.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""

# PuDB's variables show ``who``, the launcher's name for the rank, so that a test sees which rank a terminal is at.
# A whole line is one write, since launchers pass on the output of ranks in the pieces in which it comes.
SCRIPT = """\
import os
from dbg_agent import set_trace
who = "{who}".format_map(os.environ)
set_trace()
os.write(1, f"{{who}} went on\\n".encode())
"""


def write_script(folder: Path, who: str) -> Path:
    """Write a script whose ranks call themselves ``who``, with variables of their environment in braces."""
    script = folder / "train.py"
    script.write_text(SCRIPT.format(who=who))
    return script


def place(script: Path, function: str = "<module>") -> dict[str, Any]:
    """Return where a rank of this script stops, as JSON lists it."""
    lines = [line.strip() for line in script.read_text().splitlines()]
    return {"file": str(script), "line": lines.index("set_trace()") + 1, "function": function}


def numbers(listed: list[dict[str, Any]]) -> list[tuple[str, int, int, int]]:
    """Return address, rank, local rank and world size of each rank."""
    return [(rank["address"], rank["rank"], rank["local_rank"], rank["world_size"]) for rank in listed]


def look_at_each(open_terminal: OpenTerminal, whose: dict[str, str]) -> None:
    """Attach to each address in turn, check that the rank is the expected one, and detach."""
    for address, who in whose.items():
        terminal = open_pudb(open_terminal, address, address)
        terminal.wait_for(f"who: '{who}'")
        detach(terminal)


def engines(home: Path) -> list[tuple[str, str | None]]:
    """Return state and engine of each rank."""
    return [(rank["state"], rank["engine"]) for rank in attach_list(home)]


def let_all_go_on(home: Path, target: str = "all") -> None:
    """Resume every stop of ``target``."""
    result = attach(home, "continue", target)
    assert result.returncode == 0, result.stderr


def ends_well(job: Child, *went_on: str, timeout: float | None = None) -> None:
    """Wait for the job's end and check that each rank has gone on."""
    assert job.wait(timeout) == 0, job.tail()
    assert sorted(re.findall(r"^(.+) went on$", job.text(), re.MULTILINE)) == sorted(went_on)


@needs_torch
@pytest.mark.timeout(seconds(2 * TORCH_SECONDS))
def test_every_rank_of_a_torchrun_is_listed_and_can_be_attached(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    # Ranks with one thread per core each would only wait for each other. Each imports torch for seconds; four ranks of
    # torchrun are in the tests of hangs.
    env = dict(os.environ) | {"OMP_NUM_THREADS": "1"}
    job = processes.start("torchrun", torchrun(2, str(DDP), "--stop-at-step", "3", "--epochs", "1"), env=env)
    stopped = wait_until_stopped(home, 2, seconds(TORCH_SECONDS))
    assert numbers(stopped) == [(f"{HERE}:{rank}", rank, rank, 2) for rank in range(2)]
    assert [rank["where"] for rank in stopped] == [place(DDP, "train")] * 2
    assert len({(rank["job"], rank["run"]) for rank in stopped}) == 1
    for rank in stopped:
        terminal = open_pudb(open_terminal, rank["address"], rank["address"], timeout=seconds(60))
        terminal.wait_for("DistributedDataParallel")
        detach(terminal)
    assert engines(home) == [("stopped", "pudb")] * 2
    let_all_go_on(home)
    assert job.wait(seconds(TORCH_SECONDS)) == 0
    # The text may be within a line: under torchrun a rank writes text and line end apart.
    assert sorted(re.findall(r"rank (\d) of 2: loss", job.text())) == ["0", "1"]


@needs_mpirun
def test_every_rank_of_an_mpirun_is_listed_and_can_be_attached(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    script = write_script(tmp_path, "rank {OMPI_COMM_WORLD_RANK}")
    job = processes.start("mpirun", mpirun(4, sys.executable, str(script)))
    stopped = wait_until_stopped(home, 4)
    assert numbers(stopped) == [(f"{HERE}:{rank}", rank, rank, 4) for rank in range(4)]
    assert [rank["where"] for rank in stopped] == [place(script)] * 4
    assert len({(rank["job"], rank["run"]) for rank in stopped}) == 1
    look_at_each(open_terminal, {f"{HERE}:{rank}": f"rank {rank}" for rank in range(4)})
    assert engines(home) == [("stopped", "pudb")] * 4
    let_all_go_on(home)
    ends_well(job, "rank 0", "rank 1", "rank 2", "rank 3")


def test_every_rank_of_an_srun_over_two_nodes_is_listed_and_can_be_attached(
    slurm: Slurm, processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    script = write_script(tmp_path, "rank {SLURM_PROCID} on {SLURMD_NODENAME}")
    # Two ranks are asked for on each node, or SLURM might give three to the first.
    command = ["srun", "-N2", "-n4", "--ntasks-per-node=2", sys.executable, str(script)]
    job = processes.start("srun", command, env=slurm.environment())
    stopped = wait_until_stopped(home, 4)
    assert numbers(stopped) == [("node1:0", 0, 0, 4), ("node1:1", 1, 1, 4), ("node2:2", 2, 0, 4), ("node2:3", 3, 1, 4)]
    assert [rank["where"] for rank in stopped] == [place(script)] * 4
    assert [rank["host"] for rank in stopped] == ["node1", "node1", "node2", "node2"]
    jobs = {rank["job"] for rank in stopped}
    assert len(jobs) == 1
    assert re.fullmatch(r"\d+\.0", jobs.pop())
    whose = {rank["address"]: f"rank {rank['rank']} on {rank['host']}" for rank in stopped}
    look_at_each(open_terminal, whose)
    assert engines(home) == [("stopped", "pudb")] * 4
    let_all_go_on(home)
    ends_well(job, *whose.values())


def candidates_for(open_terminal: OpenTerminal, target: str) -> list[str]:
    """Attach to a target that fits several ranks, and return the targets that the refusal names instead."""
    terminal = open_terminal(attach_command(target), cols=300)
    assert terminal.exit_status() == 2, terminal.dump()
    shown = "\n".join(terminal.screen)
    assert f"'{target}'" in shown, terminal.dump()
    return re.findall(r"`dbg-attach (\S+)`", shown)


def names_of_each(open_terminal: OpenTerminal, candidates: list[str], address: str) -> list[str]:
    """Attach to each candidate as it was printed, and return the name of the rank that it leads to."""
    names = []
    for candidate in candidates:
        terminal = open_pudb(open_terminal, candidate, address)
        terminal.wait_for(re.compile("who: '.+'"))
        names += re.findall("who: '(.+)'", "\n".join(terminal.screen))
        detach(terminal)
    return names


def plain_targets(home: Path) -> list[str]:
    """Return the first column of the plain list."""
    result = attach(home, "list", "--plain")
    assert result.returncode == 0, result.stderr
    return [line.split()[0] for line in result.stdout.splitlines()]


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
    script = write_script(tmp_path, "{SLURM_STEP_ID}:{SLURM_PROCID}")
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
    assert {f"{allocation}.0/node1:0", f"{allocation}.1/node1:0"} < set(plain_targets(home))
    let_all_go_on(home, f"{allocation}.0/all")
    wait_until(home, lambda listed: stopped_jobs(listed) == {f"{allocation}.1"}, "one step without stops")
    let_all_go_on(home)
    ends_well(job, "0:0", "0:1", "1:0", "1:1")


TWO_TORCHRUNS = """\
#!/bin/sh
LAUNCH=a "$@" & first=$!
LAUNCH=b "$@" && wait "$first"
"""


@needs_torch
@pytest.mark.timeout(seconds(2 * TORCH_SECONDS))
def test_two_torchruns_in_one_allocation_stay_apart(
    slurm: Slurm, processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    script = write_script(tmp_path, "{LAUNCH}:{RANK}")
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
    assert set(candidates) < set(plain_targets(home))
    let_all_go_on(home)
    assert slurm.wait_for_job(job) == 0
    assert sorted(re.findall(r"^(.+) went on$", log.read_text(), re.MULTILINE)) == ["a:0", "a:1", "b:0", "b:1"]
