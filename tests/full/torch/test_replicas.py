"""Ranks that must agree: ``run --stop-at different`` stops the rank whose replica is the first to differ."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbg_dial.home import NUMBERS
from dbg_wire.records.numbers import NumbersQuestion
from dbg_wire.records.record import encode_record
from tests.support.broker import running_broker
from tests.support.launchers import torchrun
from tests.support.processes import Processes
from tests.support.ranks import attach_command, wait_until
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

pytestmark = [needs_torch, pytest.mark.timeout(seconds(240))]

MODELS = """\
import os, sys, time
from contextlib import nullcontext
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
class Model(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 8), nn.BatchNorm1d(8))
        self.register_buffer("table", torch.arange(8.0))
    def forward(self, x):
        return super().forward(x) + self.table

class Experts(nn.ModuleList):
    def forward(self, x):
        return self[int(x[0, 0] > 0)](self[2](x))

def plain(rank):
    return DDP(Model())

def left_out(rank):
    model = Model()
    DDP._set_params_and_buffers_to_ignore_for_model(model, ["1.bias"])
    return DDP(model)

def other_seed(rank):
    torch.manual_seed(rank)
    return fully_shard(Model(), mesh=init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard")))

def experts(rank):
    return DDP(Experts(nn.Linear(8, 8) for _ in range(3)), find_unused_parameters=True)

def sharded(rank):
    model, mesh = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), init_device_mesh("cpu", (2,))
    for module, place in zip(model, (Shard(0), Replicate())):
        for name, parameter in list(module._parameters.items()):
            module._parameters[name] = nn.Parameter(distribute_tensor(parameter.data, mesh, [place]))
    return model

def train(make, rank, steps, fault=""):
    torch.manual_seed(0)
    model = make(rank)
    inner = getattr(model, "module", model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(0 if make is sharded else rank)
    for step in range(1, steps + 1):
        now = (fault, rank, step)
        batch = torch.randn(3 if now == ("value", 0, 6) else 4, 8)
        data = distribute_tensor(batch, init_device_mesh("cpu", (2,)), [Replicate()]) if make is sharded else batch
        with model.no_sync() if now == ("missed", 1, 5) else nullcontext():
            loss = model(data).square().mean()
            loss.backward()
        if now == ("bit", 0, 7):
            inner[1].weight.data.view(torch.int32)[3] ^= 1
        if now == ("state", 1, 8):
            optimizer.state[inner[3].bias]["exp_avg"][0] += 1e-9
        if now == ("mesh", 1, 4):
            model[1].weight._local_tensor.data[0, 0] += 1
        if now == ("buffer", 1, 9):
            inner.table[2] = 7
        optimizer.step()
        optimizer.zero_grad()
        if fault:
            time.sleep(0.01)
        else:
            os.write(1, f"loss of {make.__name__} {rank} {step} {float(loss):.17g}\\n".encode())

"""

FORKS = """\
MAKE = {"left-out": left_out, "seed": other_seed, "mesh": sharded}
for fault in sys.argv[2:]:
    for rank in range(size := 3 if fault == "bit" else 2):
        if not os.fork():
            os.environ.update(DBG_JOB=fault, RANK=str(rank), WORLD_SIZE=str(size))
            import dbg_agent

            dbg_agent.install()
            dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/{fault}", rank=rank, world_size=size)
            train(MAKE.get(fault, plain), rank, 10_000, fault)
os.wait()
"""
"""A job for each kind of fault, without the time that each import of torch would take."""

CONTROL = """\
dist.init_process_group("gloo")
for make in (plain, experts, sharded):
    train(make, dist.get_rank(), 30)
"""

DIFFERENT: dict[str, tuple[int, int, str]] = {
    "missed": (1, 5, "gradient of `0.weight`"),
    "left-out": (1, 1, "gradient of `1.bias`"),
    "seed": (1, 1, "parameter `0.weight`"),
    "bit": (0, 7, "parameter `1.weight`"),
    "state": (1, 8, "optimizer state `3.bias.exp_avg`"),
    "mesh": (1, 4, "parameter `1.weight`"),
    "buffer": (1, 9, "buffer `table`"),
    "value": (1, 6, "value of `len(batch)`"),
}
"""The rank that stops in the job of each fault, the step, and the tensor."""


def test_the_rank_step_and_tensor_of_the_first_difference_are_named(
    processes: Processes, home: Path, tmp_path: Path
) -> None:
    running_broker(processes, home)
    script = tmp_path / "jobs.py"
    script.write_text(MODELS + FORKS)
    question = NumbersQuestion(different=True, expression="len(batch)")
    environ = {**os.environ, "DBG_HOME": str(home), NUMBERS: encode_record(question)}
    processes.start("jobs", [sys.executable, str(script), str(tmp_path), *DIFFERENT], env=environ)

    def are_stopped(listed: list[dict[str, Any]]) -> bool:
        return [rank["state"] for rank in listed].count("stopped") == len(DIFFERENT)

    listed = wait_until(home, are_stopped, "a stopped rank in each job", timeout=seconds(150))
    stopped = {rank["job"]: rank for rank in listed if rank["state"] == "stopped"}
    for fault, (number, step, tensor) in DIFFERENT.items():
        rank = stopped[fault]
        assert (rank["rank"], rank["reason"]) == (number, "wrong-number")
        assert f"step {step}: the {tensor} " in rank["detail"]


def test_local_statistics_skipped_experts_and_shards_are_no_difference_and_losses_are_the_same(
    processes: Processes, home: Path, tmp_path: Path
) -> None:
    script = tmp_path / "control.py"
    script.write_text(MODELS + CONTROL)
    watched = attach_command("run", "--stop-at", "different", "--eval", "step", "--")
    outputs = []
    for command in ([], watched):
        result = subprocess.run(
            [*command, *torchrun(2, str(script))],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            text=True,
            env=processes.marked({**os.environ, "DBG_HOME": str(home)}),
            timeout=seconds(120),
        )
        outputs.append(sorted(line for line in result.stdout.splitlines() if line.startswith("loss")))
    assert len(outputs[0]) == 3 * 2 * 30
    assert outputs[0] == outputs[1]
