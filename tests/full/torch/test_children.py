"""Processes that a rank starts: those that are ranks of their own, its children of every start method, and the rest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_starts import HERE, write
from tests.e2e.test_starts import as_by_run as environment
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, wait_until, wait_until_stopped
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

TORCH_SECONDS = 60.0
"""Seconds for a script and two children to import torch on two cores, beside other tests."""


SPAWNED = """\
import os
import torch.multiprocessing as mp
import torch.distributed as dist

def train(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK=str(rank), WORLD_SIZE="2")
    breakpoint()
    os.write(1, f"trained {rank}\\n".encode())

if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
"""


LOADED = """\
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        value = index * 10 + 10
        breakpoint()
        return value

if __name__ == "__main__":
    loader = DataLoader(Numbers(), batch_size=1, num_workers=2, multiprocessing_context="spawn")
    print("loaded", sorted(int(batch) for batch in loader))
"""


OF_TORCH = {
    "mp.spawn": (SPAWNED, ["0", "1"], "trained 1"),
    "DataLoader": (LOADED, ["0.1", "0.2"], "loaded [10, 20]"),
}


GROUP = """\
import sys
import torch, torch.distributed as dist, torch.multiprocessing as mp

def work(number, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=number, world_size=2)
    if number:
        breakpoint()
    dist.all_reduce(torch.ones(1))

if __name__ == "__main__":
    mp.start_processes(work, (sys.argv[2],), nprocs=2, start_method=sys.argv[1])
"""


@needs_torch
@pytest.mark.timeout(seconds(2 * TORCH_SECONDS))
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_become_ranks_when_torch_numbers_them(
    processes: Processes, home: Path, tmp_path: Path, method: str
) -> None:
    running_broker(processes, home)
    command = [sys.executable, str(write(tmp_path, GROUP)), method, str(tmp_path / "store")]
    job = processes.start("train", command, env=environment())

    def are_numbered(ranks: list[dict[str, Any]]) -> bool:
        return {rank["rank"] for rank in ranks if rank["child"] is None and rank["world_size"] == 2} == {0, 1}

    listed = wait_until(home, are_numbered, "both ranks", timeout=seconds(TORCH_SECONDS))
    assert len({(rank["job"], rank["run"]) for rank in listed}) == 1
    assert [rank["pid"] for rank in listed if rank["child"] is not None] == [job.pid]
    wait_until_stopped(home, 1)
    (verdict,) = ask(home, "why")["verdicts"]
    assert (verdict["kind"], verdict["ranks"]) == ("missing", "1")
    attach(home, "continue", "stopped")
    assert job.wait(seconds(TORCH_SECONDS)) == 0, job.tail()


@needs_torch
@pytest.mark.timeout(seconds(2 * TORCH_SECONDS))
@pytest.mark.parametrize("case", ["mp.spawn", "DataLoader"])
def test_children_of_torch_stop_at_breakpoint(processes: Processes, home: Path, tmp_path: Path, case: str) -> None:
    text, numbers, printed = OF_TORCH[case]
    running_broker(processes, home)
    job = processes.start("train", [sys.executable, str(write(tmp_path, text))], env=environment())
    stopped = wait_until_stopped(home, 2, seconds(TORCH_SECONDS))
    assert sorted(rank["address"] for rank in stopped) == [f"{HERE}:{number}" for number in numbers]
    attach(home, "continue", "*/stopped")
    assert job.wait(seconds(TORCH_SECONDS)) == 0, job.tail()
    assert printed in job.text()
