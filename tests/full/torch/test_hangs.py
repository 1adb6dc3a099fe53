"""Each kind of hang of docs/hangs.md, with its launcher and its library: what `why` finds, and what its page shows."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
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

pytestmark = pytest.mark.timeout(seconds(3 * TORCH_SECONDS))

PAGE = ROOT / "docs/hangs.md"
ON_THE_PAGE = {scene.scene: scene for scene in played(PAGE)}

BUSY, CULPRIT = 0, 1
"""Exit statuses of `why`."""

Verdict = dict[str, Any]

EXPECTED: dict[str, Verdict] = {
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

EXPECTED_OF_MPI = {
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
    result = attach(home, "why", "--json")
    if not result.stdout:
        raise AssertionError(f"`why` ended with status {result.returncode}: {result.stderr}")
    verdicts: list[Verdict] = json.loads(result.stdout)["verdicts"]
    return result.returncode, verdicts


def check(home: Path, wanted: Verdict) -> Verdict:
    """Return the verdict that has all of these facts; fail if none does."""
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
    """Check what `where` shows of a job of which rank 2 has not come to the fourth all_reduce."""
    shown = attach(home, "where").stdout
    assert re.search(r"waits in all_reduce #4 of \S+, 3 of 4 there", shown), shown
    assert re.search(r"^@missing  1 rank  2  not reached all_reduce #4 of \S+$", shown, re.MULTILINE), shown
    groups = json.loads(attach(home, "where", "--json").stdout)["groups"]
    waiting = next(group for group in groups if group["ranks"] == "0-1,3")
    assert waiting["collective"].items() >= {"name": "all_reduce", "sequence": 4, "there": 3, "of": 4}.items()
    assert waiting["age"] > 2
    assert json.loads(attach(home, "where", "@missing", "--json").stdout)["groups"][0]["ranks"] == "2"


ALSO: dict[str, Callable[[Path], None]] = {"missing-rank": missing_is_shown_by_where}
"""What other questions must show of some of these jobs."""


@needs_torch
@pytest.mark.parametrize("name", list(EXPECTED))
def test_why_names_the_hang_of_a_torchrun(name: str, processes: Processes, tmp_path: Path) -> None:
    stage = Stage(processes, SCENES[name], tmp_path)
    check(stage.home, EXPECTED[name])
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
def test_a_rank_in_mpi_finalize_is_named_and_no_rank_is_busy(processes: Processes, home: Path, tmp_path: Path) -> None:
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
@pytest.mark.parametrize("name", list(EXPECTED_OF_MPI))
def test_why_reports_sends_and_requests_of_mpi(name: str, processes: Processes, home: Path, tmp_path: Path) -> None:
    script = tmp_path / "jobs.py"
    script.write_text(MPI_JOBS)
    running_broker(processes, home)
    command = mpirun(2, sys.executable, "-m", "dbg_agent", str(script), name)
    processes.start("mpirun", command, env={**os.environ, "DBG_HOME": str(home)})
    wait_until(home, lambda listed: len(listed) == 2, "both ranks", timeout=seconds(40))

    kind, facts = EXPECTED_OF_MPI[name]
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
        # No control group can be made here: the kill is the test's, and only its cause is not reported.
        stage = Stage(processes, SCENES["missing-rank"], tmp_path)
        (pid,) = (rank["pid"] for rank in attach_list(stage.home) if rank["rank"] == 1)
        os.kill(pid, signal.SIGKILL)
        stage.wait_for_hang("dead")
        assert "was killed by SIGKILL" in check(stage.home, {"kind": "dead", "ranks": "1"})["sentence"]
        return
    stage = Stage(processes, SCENES["out-of-memory"], tmp_path, limit)
    dead = check(stage.home, {"kind": "dead", "ranks": "1"})
    assert "out-of-memory killer" in dead["sentence"] + "\n".join(dead["evidence"])
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
    missing = check(home, {"kind": "missing", "ranks": "0", "others": "1", "collective": "all_reduce"})
    # Where it was broken into: in the program, or within a function of torch.
    assert re.search(r"\(\w+\.py:\d+\)", missing["sentence"])


CASES = Path(__file__).parents[2] / "unit/client/why/cases"
"""Evidence of all jobs, as it was recorded, and what is to be decided of each."""

JOBS = """\
import os, sys, time, urllib.request
import torch
import torch.distributed as dist
import torch.utils.data

class Shards(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.folder = folder
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return open(f"{self.folder}/shard-{index}.bin").read() if index else 0

def worker_reads_fifo(rank, folder):
    if rank > 0:
        os.mkfifo(folder + "/shard-1.bin")
        for batch in torch.utils.data.DataLoader(Shards(folder), batch_size=1, num_workers=2):
            pass
    dist.barrier()

def post_metrics(folder):
    while True:
        try:
            urllib.request.urlopen("http://127.0.0.1:9/metrics", timeout=5)
            return
        except OSError:
            time.sleep(0.3)

def retries(rank, folder):
    if rank > 0:
        post_metrics(folder)
    dist.barrier()

def leaves_early(rank, folder):
    steps = 3 if rank > 0 else 4
    for step in range(steps):
        dist.all_reduce(torch.ones(4))
    dist.barrier()

def train(hang, rank, size, folder):
    os.environ.update(DBG_JOB=hang.__name__, RANK=str(rank), WORLD_SIZE=str(size))
    folder = f"{folder}/{hang.__name__}"
    os.makedirs(folder, exist_ok=True)
    import dbg_agent

    dbg_agent.install()
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    dist.barrier()
    hang(rank, folder)

torch.set_num_threads(1)
names = sys.argv[2:]
for name in names:
    for rank in range(2):
        if not os.fork():
            train(globals()[name], rank, 2, sys.argv[1])
            sys.exit()
os.wait()
"""

LIVE = ("retries", "worker_reads_fifo", "leaves_early")
"""Jobs that run here: a loop that sleeps between tries, a process of a rank, and code that is read."""


def expected(name: str) -> dict[str, Any]:
    """Return what is to be decided of a job."""
    found: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text())
    del found["case"]
    return found


def worst_verdicts(home: Path) -> dict[str, dict[str, Any]]:
    """Return the worst verdict on each job, by the job."""
    found: dict[str, dict[str, Any]] = {}
    answer = attach(home, "why", "--json")
    assert answer.stdout, answer.stderr
    for verdict in json.loads(answer.stdout)["verdicts"]:
        decided = {name: verdict[name] for name in ("kind", "cause", "ranks", "certainty")}
        found.setdefault(verdict["job"], decided)
    return found


@needs_torch
def test_why_follows_waits_to_their_cause(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "jobs.py"
    script.write_text(JOBS)
    environ = {**os.environ, "DBG_HOME": str(home), "OMP_NUM_THREADS": "1"}
    processes.start("jobs", [sys.executable, str(script), str(tmp_path), *LIVE], env=environ)
    count = 2 * len(LIVE)
    wait_until(home, lambda listed: len(listed) == count, "all ranks", listing=("--all",), timeout=seconds(90))

    wanted = {name: expected(name) for name in LIVE}
    until = time.monotonic() + seconds(60)
    while (found := worst_verdicts(home)) != wanted and time.monotonic() < until:
        time.sleep(0.5)
    assert found == wanted


# Where the recorder's watchdog writes dumps of NCCL, the ranks of gloo write theirs when the test lets them.
DUMPS = """\
import sys
import threading

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as native

dist.init_process_group("gloo")
rank = dist.get_rank()
gradients = torch.ones(7)

def write_dump():
    open(f"{sys.argv[1]}/dump{rank}").read()
    # The form that all releases have; of stacks, the first dump takes seconds.
    data = native._dump_fr_trace(True, rank != 0, False)
    with open(f"{sys.argv[1]}/left/nccl_trace_rank_{rank}", "wb") as file:
        file.write(data)
    print("dumped", flush=True)

def wait_for_shard():
    open(f"{sys.argv[1]}/shard").read()

def train_step(step):
    if step == 3 and rank == 1:
        wait_for_shard()
    dist.all_reduce(gradients)

threading.Thread(target=write_dump, daemon=True).start()
print("begins", flush=True)
for step in range(5):
    train_step(step)
"""


def verdict_in(text: str) -> dict[str, Any]:
    """Return the worst verdict of a document."""
    verdict: dict[str, Any] = json.loads(text)["verdicts"][0]
    return verdict


@needs_torch
def test_dumps_and_a_report_give_the_verdict_of_the_ranks(processes: Processes, home: Path, tmp_path: Path) -> None:
    broker = running_broker(processes, home)
    script, left = tmp_path / "train.py", tmp_path / "left"
    script.write_text(DUMPS)
    left.mkdir()
    for name in ("shard", "dump0", "dump1", "dump2"):
        os.mkfifo(tmp_path / name)
    job = processes.start(
        "job",
        torchrun(3, "-m", "dbg_agent", str(script), str(tmp_path)),
        env={**os.environ, "DBG_HOME": str(home), "OMP_NUM_THREADS": "1", "DBG_JOB": "train"},
    )
    job.wait_for_output(r"(?s)(begins.*){3}", seconds(TORCH_SECONDS))
    living = verdict_in(attach(home, "why", "--json").stdout)
    assert (living["kind"], living["ranks"], living["sequence"]) == ("missing", "1", 4)
    report = tmp_path / "report.txt"
    assert attach(home, "report", "-o", str(report)).returncode == 0
    for rank in range(3):
        (tmp_path / f"dump{rank}").write_text("")
    job.wait_for_output(r"(?s)(dumped.*){3}", seconds(TORCH_SECONDS))
    job.terminate()
    broker.kill()

    of_dumps = attach(home, "why", str(left), "--json")
    found = verdict_in(of_dumps.stdout)
    assert of_dumps.returncode == 1
    for name in ("kind", "ranks", "others", "group", "collective", "sequence"):
        assert found[name] == living[name]
    assert any("all_reduce #3, at train.py:" in line for line in found["evidence"])

    of_report = attach(home, "why", str(report), "--json")
    again = verdict_in(of_report.stdout)
    assert (of_report.returncode, again["kind"], again["ranks"]) == (1, "missing", "1")
    assert "wait_for_shard" in "".join(again["evidence"])
    text = report.read_text()
    assert all(line in text for line in (again["sentence"], *again["evidence"]))

    (left / "nccl_trace_rank_1").unlink()
    without = verdict_in(attach(home, "why", str(left), "--json").stdout)
    assert (without["kind"], without["ranks"]) == ("unknown", "1")
