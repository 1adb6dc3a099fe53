"""Each kind of hang of docs/hangs.md, with its launcher and its library: what `why` finds, and what its page shows."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.console import agree, steps
from tests.docs.pages import ROOT, Played, played
from tests.docs.scenes import MEMORY, SCENES, TORCH_SECONDS, Stage
from tests.support.broker import Wrap, running_broker
from tests.support.launchers import mpirun, torchrun
from tests.support.memory_limit import limited_memory
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_list, states, wait_until
from tests.support.requirements import needs_mpi4py, needs_mpirun, needs_torch
from tests.support.time_unit import seconds

pytestmark = [
    pytest.mark.timeout(seconds(2 * TORCH_SECONDS)),
]

PAGE = ROOT / "docs/hangs.md"
ON_THE_PAGE = {scene.scene: scene for scene in played(PAGE)}

BUSY, CULPRIT = 0, 1
"""Exit statuses of `why`."""

Verdict = dict[str, Any]

TOLD: dict[str, Verdict] = {
    "missing-rank": {"kind": "missing", "ranks": "2", "others": "0-1,3", "collective": "all_reduce", "sequence": 4},
    "different-order": {"kind": "order"},
    "different-groups": {"kind": "order", "collective": "all_reduce"},
    "different-shape": {"kind": "mismatch", "collective": "all_reduce", "sequence": 1},
    "deadlocked-threads": {"kind": "missing", "cause": "deadlock", "ranks": "1"},
    "stuck-in-c": {"kind": "missing", "cause": "stuck", "ranks": "3"},
    "partner": {"kind": "partner"},
}
"""What the verdicts of each job of torchrun must have among them."""

BUSY_LOOP = """\
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(100_000):
    time.sleep(0.01)
    dist.all_reduce(torch.ones(10))
    if step == 10:
        print(f"rank {dist.get_rank()}: trains", flush=True)
"""


LEAVES = """\
from mpi4py import MPI

if MPI.COMM_WORLD.Get_rank() == 0:
    MPI.COMM_WORLD.Barrier()
"""

MPI_JOBS = """\
import sys

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()

def wrong_tag():
    if rank == 1:
        world.send(b"weights", dest=0, tag=11)
    else:
        world.recv(source=1, tag=12)
    world.Barrier()

def ring():
    world.Ssend(numpy.ones(4), dest=(rank + 1) % size)
    world.Recv(numpy.ones(4), source=(rank - 1) % size)

def request():
    if rank == 0:
        receives = world.Irecv(numpy.ones(4), source=1)
        receives.Wait()
    world.Barrier()

globals()[sys.argv[1]]()
"""

TOLD_OF_MPI = {
    "wrong_tag": (
        "partner",
        {"ranks": "1", "others": "0", "certainty": "likely"},
    ),
    "ring": (
        "partner",
        {"certainty": "likely"},
    ),
    "request": (
        "missing",
        {"ranks": "0", "others": "1", "collective": "Barrier", "certainty": "likely"},
    ),
}
"""The kind of the verdict on each of these jobs, and other facts of it."""


def why(home: Path) -> tuple[int, list[Verdict]]:
    """Return the exit status and the verdicts of `why`."""
    told = attach(home, "why", "--json")
    if not told.stdout:
        raise AssertionError(f"`why` ended with status {told.returncode}: {told.stderr}")
    verdicts: list[Verdict] = json.loads(told.stdout)["verdicts"]
    return told.returncode, verdicts


def check(home: Path, wanted: Verdict) -> Verdict:
    """Return the verdict that says all of this; fail if none does."""
    status, verdicts = why(home)
    found = [verdict for verdict in verdicts if wanted.items() <= verdict.items()]
    assert found, json.dumps(verdicts, indent=1)
    assert status == CULPRIT
    return found[0]


def play(scene: Played, stage: Stage) -> None:
    """Type the commands of a page, and compare what they print."""
    for block in scene.blocks:
        for step in steps(block.text):
            printed = stage.play(step)
            assert agree(step.output, printed), "\n".join([f"$ {step.command}", *printed])


def missing_is_shown_by_where(home: Path) -> None:
    """Check what `where` tells of a job of which rank 2 has not come to the fourth all_reduce."""
    shown = attach(home, "where").stdout
    assert re.search(r"waits in all_reduce #4 of \S+, 3 of 4 there", shown), shown
    assert re.search(r"^@missing  1 rank  2  not come to all_reduce #4 of \S+$", shown, re.MULTILINE), shown
    groups = json.loads(attach(home, "where", "--json").stdout)["groups"]
    waiting = next(group for group in groups if group["ranks"] == "0-1,3")
    assert waiting["collective"].items() >= {"name": "all_reduce", "sequence": 4, "there": 3, "of": 4}.items()
    assert waiting["age"] > 2
    assert json.loads(attach(home, "where", "@missing", "--json").stdout)["groups"][0]["ranks"] == "2"


ALSO: dict[str, Callable[[Path], None]] = {"missing-rank": missing_is_shown_by_where}
"""What other questions must tell of some of these jobs."""


@needs_torch
@pytest.mark.parametrize("name", list(TOLD))
def test_why_names_the_hang_of_a_torchrun(name: str, processes: Processes, tmp_path: Path) -> None:
    stage = Stage(processes, SCENES[name], tmp_path)
    check(stage.home, TOLD[name])
    play(ON_THE_PAGE[name], stage)
    if name in ALSO:
        ALSO[name](stage.home)


@needs_mpirun
@needs_mpi4py
def test_why_names_the_hang_of_an_mpirun(processes: Processes, tmp_path: Path) -> None:
    stage = Stage(processes, SCENES["mpi-missing"], tmp_path)
    check(stage.home, {"kind": "missing", "ranks": "2", "others": "0-1,3", "collective": "allreduce", "sequence": None})
    play(ON_THE_PAGE["mpi-missing"], stage)


@needs_mpirun
@needs_mpi4py
def test_a_rank_in_mpi_finalize_is_told_and_nobody_is_busy(processes: Processes, home: Path, tmp_path: Path) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(LEAVES)
    running_broker(processes, home)
    command = mpirun(2, sys.executable, "-m", "dbg_agent", str(script))
    processes.start("mpirun", command, env={**os.environ, "DBG_HOME": str(home)})
    wanted = {0: "running", 1: "exited"}
    # The program of rank 1 ends before its connection is there, and its process does not.
    wait_until(home, lambda listed: states(listed) == wanted, str(wanted), listing=("--all",), timeout=seconds(40))

    status, verdicts = why(home)

    assert status == CULPRIT
    assert "rank 1" in verdicts[0]["sentence"]
    assert "MPI_Finalize" in verdicts[0]["sentence"]
    assert not [verdict for verdict in verdicts if verdict["kind"] == "busy"]


@needs_mpirun
@needs_mpi4py
@pytest.mark.parametrize("name", list(TOLD_OF_MPI))
def test_why_tells_sends_and_requests_of_mpi(name: str, processes: Processes, home: Path, tmp_path: Path) -> None:
    script = tmp_path / "jobs.py"
    script.write_text(MPI_JOBS)
    running_broker(processes, home)
    command = mpirun(2, sys.executable, "-m", "dbg_agent", str(script), name)
    processes.start("mpirun", command, env={**os.environ, "DBG_HOME": str(home)})
    wait_until(home, lambda listed: len(listed) == 2, "both ranks", timeout=seconds(40))

    kind, facts = TOLD_OF_MPI[name]
    (verdict, *more) = why(home)[1]
    while verdict["kind"] != kind or not facts.items() <= verdict.items():
        # At first a rank may still be on its way there.
        (verdict, *more) = why(home)[1]
    assert more == []


@pytest.fixture
def limit() -> Iterator[Wrap | None]:
    """What limits the memory of a command, if that is allowed here; it goes after the processes of the test."""
    with limited_memory(MEMORY) as wrap:
        yield wrap


@needs_torch
def test_why_names_the_rank_that_was_killed_for_its_memory(
    limit: Wrap | None, processes: Processes, tmp_path: Path
) -> None:
    if limit is None:
        # No control group can be made here: the kill is the test's, and only its cause is not told.
        stage = Stage(processes, SCENES["missing-rank"], tmp_path)
        (pid,) = (rank["pid"] for rank in attach_list(stage.home) if rank["rank"] == 1)
        os.kill(pid, signal.SIGKILL)
        stage.wait_for_hang("dead")
        assert "was killed by SIGKILL" in check(stage.home, {"kind": "dead", "ranks": "1"})["sentence"]
        return
    stage = Stage(processes, SCENES["out-of-memory"], tmp_path, limit)
    told = check(stage.home, {"kind": "dead", "ranks": "1"})
    assert "out-of-memory killer" in told["sentence"] + "\n".join(told["evidence"])
    play(ON_THE_PAGE["out-of-memory"], stage)


@needs_torch
def test_a_job_that_trains_is_busy_and_one_with_a_stopped_rank_waits_for_it(
    processes: Processes, home: Path, tmp_path: Path
) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(BUSY_LOOP)
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    job = processes.start("ranks", torchrun(2, "-m", "dbg_agent", str(script)), env=environ)
    for rank in range(2):
        job.wait_for_output(f"rank {rank}: trains", seconds(TORCH_SECONDS))
    status, verdicts = why(home)
    assert {verdict["kind"] for verdict in verdicts} == {"busy"}, json.dumps(verdicts, indent=1)
    assert status == BUSY

    assert attach(home, "interrupt", "0").returncode == 0
    wait_until(home, lambda listed: any(rank["state"] == "stopped" for rank in listed), "rank 0 stopped")
    # At first rank 1 may still be on its way to the next collective.
    while not any(verdict["ranks"] == "0" and verdict["others"] == "1" for verdict in why(home)[1]):
        pass
    told = check(home, {"kind": "missing", "ranks": "0", "others": "1", "collective": "all_reduce"})
    # Where it was broken into: in the program, or within a function of torch.
    assert re.search(r"\(\w+\.py:\d+\)", told["sentence"])
