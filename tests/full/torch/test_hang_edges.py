"""Real jobs in which one rank waits for something else than the collective in which the other one is.

All are forks of one process that has imported torch; ``tests/unit/client/hang/cases`` has recordings of many more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, wait_until
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

pytestmark = [pytest.mark.timeout(seconds(240)), needs_torch]

CASES = Path(__file__).parents[2] / "unit/client/hang/cases"
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
"""Jobs that run here: a loop that several looks show, a process of a rank, and code that is read."""


def expected(name: str) -> dict[str, Any]:
    """Return what is to be decided of a job."""
    found: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text())
    del found["evidence"]
    return found


def told(home: Path) -> dict[str, dict[str, Any]]:
    """Return the worst verdict on each job, by the job."""
    found: dict[str, dict[str, Any]] = {}
    answer = attach(home, "why", "--json")
    assert answer.stdout, answer.stderr
    for verdict in json.loads(answer.stdout)["verdicts"]:
        decided = {name: verdict[name] for name in ("kind", "cause", "ranks", "certainty")}
        found.setdefault(verdict["job"], decided)
    return found


def test_what_a_rank_waits_for_is_told_up_to_who_could_end_it(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "jobs.py"
    script.write_text(JOBS)
    environ = {**os.environ, "DBG_HOME": str(home), "OMP_NUM_THREADS": "1"}
    processes.start("jobs", [sys.executable, str(script), str(tmp_path), *LIVE], env=environ)
    everybody = 2 * len(LIVE)
    wait_until(home, lambda listed: len(listed) == everybody, "all ranks", listing=("--all",), timeout=seconds(90))

    wanted = {name: expected(name) for name in LIVE}
    until = time.monotonic() + seconds(60)
    while (found := told(home)) != wanted and time.monotonic() < until:
        time.sleep(0.5)
    assert found == wanted
