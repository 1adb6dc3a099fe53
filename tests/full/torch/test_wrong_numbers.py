"""Jobs of torch in which a number is wrong in one rank: where the watch stops the job, and what it reports."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import dbg_client
from tests.docs.scenes import TORCH_SECONDS
from tests.support.broker import running_broker
from tests.support.launchers import torchrun
from tests.support.processes import Child, Processes
from tests.support.ranks import ask, attach, attach_command, texts, wait_until_states, wait_until_stopped
from tests.support.requirements import needs_torch
from tests.support.runs import line_of
from tests.support.time_unit import seconds

pytestmark = [needs_torch, pytest.mark.timeout(seconds(4 * TORCH_SECONDS))]

BAD = 1
"""The rank in which the number becomes wrong."""

SCRIPT = """\
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

case = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16, dtype=dtype), nn.Linear(16, 8, dtype=dtype)
        self.mask = nn.Identity()

    def forward(self, x):
        x = self.up(x)  # up
        if case == "collective" and step == 3 and self is model[1]:
            # Rank 1 uses another buffer than the one that it has received.
            received = x.detach().clone() if rank == 0 else torch.empty_like(x).fill_(float("nan"))
            dist.broadcast(received.clone() if rank else received, src=0)
            x = received
        if case == "mask":
            x = x + self.mask(torch.full((1,), -float("inf"))).exp()
        return self.down(x)  # down

dtype = torch.float16 if case == "overflow" else torch.float32
model = nn.Sequential(Block(dtype), Block(dtype))
if case == "ddp":
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, enabled=case == "scaler")
torch.manual_seed(rank)
for step in range(1, 8):
    batch = torch.randn(4, 8, dtype=dtype)
    is_bad = step == 3 and rank == 1
    if is_bad and case == "batch":
        batch[2, 5] = float("nan")
    if is_bad and case == "overflow":
        batch.fill_(60000)
        model[0].up.weight.data.fill_(1.0)
    if is_bad and case == "weight":
        model[1].down.weight.data[3, 5] = float("inf")
    loss = model(batch).float().pow(2).mean()  # model
    if is_bad and case in ("backward", "ddp"):
        loss = loss / (loss.detach() * 0)
    scaler.scale(loss).backward()  # backward
    if is_bad and case == "changed":
        model[0].up.weight.grad[0, 0] = float("nan")
    if is_bad and case == "rate":
        optimizer.param_groups[0]["lr"] = float("inf")
    scaler.step(optimizer)  # step
    scaler.update()
    optimizer.zero_grad()
    dist.barrier()
print("ends", flush=True)
"""

CASES = {
    "batch": ("# up", "output", "0.up", "batch"),
    "overflow": ("# up", "output", "0.up", "computed"),
    "weight": ("# down", "output", "1.down", "weight"),
    "collective": ("# down", "output", "1.down", "caller"),
    "backward": ("# backward", "output gradient", "1.down", "computed"),
    "changed": ("# step", "gradient", "0.up.weight", "changed"),
    "rate": ("# step", "parameter", "0.up.weight", "computed"),
    "ddp": ("# backward", "output gradient", "1.down", "computed"),
}
"""The line of the stop in each case, and the kind, name and source of the wrong number."""

QUIET = {"scaler": (), "mask": ("--except", "?.mask")}
"""Cases with infinities that are wanted, and the options that they need."""


@pytest.fixture(autouse=True)
def broker(processes: Processes, home: Path) -> None:
    """Serve a broker for each job."""
    running_broker(processes, home)


def start(processes: Processes, home: Path, tmp_path: Path, case: str, *options: str) -> Child:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    environ = {**os.environ, "DBG_HOME": str(home), "DBG_JOB": "train", "OMP_NUM_THREADS": "1"}
    command = attach_command("run", *options, "--", *torchrun(2, str(script), case))
    return processes.start("run", command, env=environ)


@pytest.mark.parametrize("case", CASES)
def test_the_first_wrong_number_stops_its_rank(processes: Processes, home: Path, tmp_path: Path, case: str) -> None:
    start(processes, home, tmp_path, case, "--stop-at", "nan")
    (stopped,) = wait_until_stopped(home, 1, seconds(TORCH_SECONDS))
    marker, *expected = CASES[case]
    assert (stopped["rank"], stopped["reason"]) == (BAD, "wrong-number")
    assert stopped["where"]["line"] == line_of(marker, SCRIPT)
    (wrong,) = ask(home, "numbers")["wrong"]
    assert [wrong["suspect"], wrong["name"], wrong["origin"]] == expected
    assert (wrong["rank"], wrong["step"]) == (BAD, 3)
    assert wrong["nans"] + wrong["infinities"] > 0


@pytest.mark.parametrize("case", QUIET)
def test_wanted_infinities_stop_nobody(processes: Processes, home: Path, tmp_path: Path, case: str) -> None:
    job = start(processes, home, tmp_path, case, "--stop-at", "nan", *QUIET[case])
    assert job.wait(seconds(TORCH_SECONDS)) == 0
    assert len(re.findall("ends", job.text())) == 2
    assert "dbg-agent" not in job.text() + job.text("stderr")


def test_the_others_wait_and_the_job_ends_well(processes: Processes, home: Path, tmp_path: Path) -> None:
    job = start(processes, home, tmp_path, "batch", "--stop-at", "nan")
    wait_until_stopped(home, 1, seconds(TORCH_SECONDS))
    values = ask(home, "eval", str(BAD), "type(_module).__name__, _inputs[0][0].shape, _output.isnan().any().item()")
    assert texts(values) == {str(BAD): "('Linear', torch.Size([4, 8]), True)"}
    assert attach(home, "continue", str(BAD)).returncode == 0
    # Nobody stops a second time, although the number spreads from step to step.
    assert job.wait(seconds(TORCH_SECONDS)) == 0


LOOP = """\
import pathlib
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.Linear(4, 4)
go = pathlib.Path(sys.argv[1])
print("trains", flush=True)
while True:
    if go.exists() and dist.get_rank() == 1:
        model.weight.data[0, 0] = float("nan")
    model(torch.ones(4))
"""


def test_a_watch_starts_in_a_running_job(
    processes: Processes, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, go = tmp_path / "train.py", tmp_path / "go"
    script.write_text(LOOP)
    environ = {**os.environ, "DBG_HOME": str(home), "DBG_JOB": "train", "OMP_NUM_THREADS": "1"}
    job = processes.start("job", torchrun(2, "-m", "dbg_agent", str(script), str(go)), env=environ)
    job.wait_for_output("(?s)(?:trains.*){2}", seconds(TORCH_SECONDS))
    wait_until_states(home, {0: "running", 1: "running"}, seconds(TORCH_SECONDS))
    assert attach(home, "watch", "nan", "--for", "0.1").returncode == 0
    go.touch()
    assert attach(home, "watch", "nan").returncode == 1
    (wrong,) = ask(home, "numbers")["wrong"]
    assert (wrong["rank"], wrong["name"], wrong["origin"]) == (BAD, "Linear", "weight")
    wait_until_states(home, {0: "held", BAD: "stopped"})
    monkeypatch.setenv("DBG_HOME", str(home))
    with dbg_client.connect() as broker:
        assert [one["rank"] for one in broker.job()["all"].numbers("nan").wrong] == [BAD]
