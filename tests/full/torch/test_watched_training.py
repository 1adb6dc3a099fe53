"""A training under a watch: the same losses to the bit, the same compiled graphs, and no false stop."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.docs.scenes import TORCH_SECONDS
from tests.support.broker import running_broker
from tests.support.launchers import torchrun
from tests.support.processes import Processes
from tests.support.ranks import attach_command
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

pytestmark = [needs_torch, pytest.mark.timeout(seconds(6 * TORCH_SECONDS))]

MODEL = """\
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)

def say(kind, value):
    os.write(1, f"{kind} {value}\\n".encode())

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 32), nn.Linear(32, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

class Model(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, 50)

    def forward(self, words):
        x = self.embedding(words)
        for layer in self.layers:
            x = wrap(layer, x)
        return self.head(x)

def call(layer, x):
    return layer(x)

wrap = call

def model():
    torch.manual_seed(0)
    return Model()

def train(model, forward=None, steps=3, dtype=None, scaler=None, accumulate=1, seed=1):
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    words = torch.randint(0, 50, (4, 8))
    for _ in range(steps):
        for _ in range(accumulate):
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                output = model(words) if forward is None else forward(words)
            loss = F.cross_entropy(output.float().flatten(0, 1), words.flatten())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        say("loss", loss.item().hex())
"""

ALONE = f"""\
{MODEL}
from functools import partial

import torch._dynamo
from torch.func import functional_call, grad, vmap
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

train(model())
train(model(), dtype=torch.bfloat16, accumulate=2)
saves = partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
for options in ({{"use_reentrant": True}}, {{"use_reentrant": False}}, {{"use_reentrant": False, "context_fn": saves}}):
    wrap = lambda layer, x: checkpoint(layer, x, **options)
    train(model())
wrap = call
for is_outer in (True, False):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    part = model()
    if is_outer:
        train(part, torch.compile(part, fullgraph=True, backend="aot_eager"))
    else:
        part.compile(fullgraph=True, backend="aot_eager")
        train(part)
    say("graphs", sorted(torch._dynamo.utils.counters["stats"].items()))

@torch.compile(backend="aot_eager")
def step(words):
    loss = F.cross_entropy(part(words).flatten(0, 1), words.flatten())
    loss.backward()
    return loss.detach()

part = model()
say("loss", step(torch.arange(8)[None]).item().hex())

class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared, self.sparse = nn.Linear(4, 4), nn.Embedding(9, 4, sparse=True)

    def forward(self, x):
        x = self.shared(self.shared(x))
        rows = self.sparse(torch.tensor([1, 2]))
        return {{"x": (x, [x.to(torch.complex64), x[:0]]), "rows": rows, "count": torch.arange(3), "none": None}}

odd = Odd()
optimizers = torch.optim.SparseAdam(odd.sparse.parameters()), torch.optim.SGD(odd.shared.parameters(), lr=0.1)
for _ in range(2):
    output = odd(torch.ones(2, 4))
    (output["x"][0].sum() + output["x"][1][0].abs().sum() + output["rows"].sum()).backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
say("loss", output["x"][0].sum().item().hex())
Odd().to("meta")(torch.ones(2, 4, device="meta"))
part = model()
values = dict(part.named_parameters())
one = lambda values, words: functional_call(part, values, (words[None],)).sum()
gradients = vmap(grad(one), (None, 0))(values, torch.arange(16).view(2, 8))
say("loss", gradients["embedding.weight"].sum().item().hex())
with torch.inference_mode():
    part(torch.arange(8)[None])
torch.jit.trace(nn.Linear(3, 3), torch.ones(2, 3), check_trace=False)
torch.export.export(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), (torch.ones(2, 3),))
"""

PARALLEL = f"""\
{MODEL}
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
part, world = model(), dist.get_world_size()
seed = dist.get_rank()
if sys.argv[1] == "ddp":
    part = DistributedDataParallel(part)
elif sys.argv[1] == "compiled ddp":
    part = torch.compile(DistributedDataParallel(part), backend="aot_eager")
elif sys.argv[1] == "fsdp":
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (world,))
    for layer in part.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(part, mesh=mesh)
else:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh, seed = init_device_mesh("cpu", (world,)), 1
    for layer in part.layers:
        parallelize_module(layer, mesh, {{"up": ColwiseParallel(), "down": RowwiseParallel()}})
train(part, seed=seed)
dist.barrier()
"""


def run(processes: Processes, home: Path, command: list[str], *options: str) -> list[str]:
    """Run a job with these options of ``run``, and return the lines about losses and graphs, sorted."""
    environ = {**os.environ, "DBG_HOME": str(home), "OMP_NUM_THREADS": "1"}
    job = processes.start("run", attach_command("run", *options, "--", *command), env=environ)
    assert job.wait(seconds(2 * TORCH_SECONDS)) == 0
    assert "dbg-agent" not in job.text("stderr")
    return sorted(re.findall("(?:loss|graphs) .*", job.text()))


@pytest.mark.parametrize("options", [("--stop-at", "nan"), ("--stop-at", "nan", "--exact")], ids=["cheap", "exact"])
def test_a_watch_changes_nothing(processes: Processes, home: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    running_broker(processes, home)
    script = tmp_path / "alone.py"
    script.write_text(ALONE)
    command = [sys.executable, str(script)]
    expected = run(processes, home, command)
    assert len(expected) > 20
    assert run(processes, home, command, *options) == expected


@pytest.mark.parametrize("kind", ["ddp", "compiled ddp", "fsdp", "tensor parallel"])
def test_a_watch_changes_no_parallel_training(processes: Processes, home: Path, tmp_path: Path, kind: str) -> None:
    running_broker(processes, home)
    script = tmp_path / "parallel.py"
    script.write_text(PARALLEL)
    command = torchrun(2, str(script), kind)
    expected = run(processes, home, command)
    assert len(expected) == 6
    assert run(processes, home, command, "--stop-at", "nan") == expected
