"""Two runs that must agree: each recorded, compared with the first one, and stopped at the first difference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dbg_agent.numbers.digests import digest_of
from dbg_agent.numbers.hooks import TrainingHooks
from dbg_agent.numbers.recording import Recorder
from dbg_dial.number_files import steps_of
from dbg_wire.records.numbers import NumbersQuestion
from dbg_wire.records.ranks import WRONG_NUMBER
from tests.docs.scenes import TORCH_SECONDS
from tests.support.launchers import torchrun
from tests.support.processes import run_command
from tests.support.ranks import ask, attach, texts, wait_until_stopped
from tests.support.requirements import needs_torch
from tests.support.runs import Directory
from tests.support.time_unit import seconds

pytestmark = [needs_torch, pytest.mark.timeout(seconds(6 * TORCH_SECONDS))]

PROGRAM = """\
import sys, torch, torch.distributed as dist
from torch.nn import functional

class Up(torch.nn.Linear):
    def forward(self, x):
        if "precise" not in sys.argv:
            return super().forward(x)
        return functional.linear(x.double(), self.weight.double(), self.bias.double()).float()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
act = torch.nn.GELU("tanh" if "tanh" in sys.argv else "none")
model = torch.nn.Sequential(torch.nn.Embedding(50, 16), Up(16, 32), act, torch.nn.Linear(32, 50))
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
batches = torch.randint(0, 50, (6, 64))
if "order" in sys.argv and rank == 1:
    batches[3:5] = batches[3:5].flip(0)
for step, batch in enumerate(batches, 1):
    if step == 3 and "lr" in sys.argv:
        optimizer.param_groups[0]["lr"] = 0.2
    loss = functional.cross_entropy(model(batch), batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    # One write for each line, because both ranks write to the same file.
    sys.stdout.write(f"loss {rank} {step} {loss.item().hex()}\\n")
    sys.stdout.flush()
"""

EXPECTED: dict[str, tuple[list[str], tuple[int, str, str, list[int]] | None]] = {
    "same": (["--exact"], None),
    "precise": ([], None),
    "precise ": (["--exact"], (1, "output", "1", [0, 1])),
    "tanh": ([], (1, "output", "2", [0, 1])),
    "lr": ([], (3, "parameter", "0.weight", [0, 1])),
    "order": ([], (4, "output", "0", [1])),
}
"""By variant: options of the comparison, and step, kind, name and ranks of the first difference."""


def train(directory: Directory, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    """Return the losses that the ranks of a run have printed."""
    command = directory.command(*options, "--", *torchrun(2, "train.py", *arguments))
    result = run_command(command, directory.processes.marked(directory.variables), seconds(TORCH_SECONDS))
    assert result.returncode == 0, result.stderr
    return sorted(line for line in result.stdout.splitlines() if line.startswith("loss"))


def test_each_variant_differs_first_where_it_was_changed(directory: Directory) -> None:
    directory.write(PROGRAM)
    plain = train(directory)
    assert len(plain) == 12
    assert train(directory, options=("--numbers", "A")) == plain
    recorded = set[str]()
    for variant, (options, expected) in EXPECTED.items():
        name = variant.strip()
        if name not in recorded:
            recorded.add(name)
            train(directory, name, options=("--numbers", f"{name}, last 9"))
        result = attach(
            directory.home, "numbers", *(str(directory.path / run) for run in ("A", name)), "--json", *options
        )
        found = json.loads(result.stdout)
        difference: dict[str, Any] | None = found["difference"]
        where = difference and (*(difference[key] for key in ("step", "suspect", "name")), found["ranks"])
        assert (where, result.returncode, found["compared"]) == (expected, int(expected is not None), [0, 1]), variant
        assert found["unmatched"] == 0

    stops = directory.command("--stop-at", "different from A", "--", *torchrun(2, "train.py", "order"))
    directory.processes.start("run", stops, env=directory.variables)
    # Both ranks differ; the one that is a little later may be held instead.
    stopped = wait_until_stopped(directory.home, 1, seconds(TORCH_SECONDS))[0]
    assert stopped["reason"] == WRONG_NUMBER
    (values,) = texts(ask(directory.home, "eval", str(stopped["rank"]), "step")).values()
    assert values == "4"
    assert attach(directory.home, "kill", "all", "-y").returncode == 0


def test_a_digest_depends_on_each_byte_and_on_the_order_only() -> None:
    import torch

    whole = torch.randint(0, 2, (40, 1024)).double()
    others = [whole.clone() for _ in range(4)]
    others[1][[3, 4]] = whole[[4, 3]]
    others[2][7, [8, 9]] = 1 - whole[7, [8, 8]]
    others[3].view(torch.int64)[39, 5] ^= -(2**63)
    assert len({digest_of(one).item() for one in others}) == 4
    assert digest_of(torch.tensor([])).item() == 0
    for dtype in (torch.bool, torch.int8, torch.bfloat16, torch.float32, torch.complex128):
        plain = torch.arange(3001).to(dtype)
        shifted, spread = torch.cat([plain[:1], plain])[1:], torch.stack([plain, plain], 1)[:, 0]
        assert digest_of(plain) == digest_of(shifted) == digest_of(spread) != digest_of(plain[:-1])


def test_a_ring_keeps_the_last_steps_and_a_full_disk_ends_the_recording(tmp_path: Path) -> None:
    import torch

    (tmp_path / "full").mkdir()
    (tmp_path / "full/rank-00003.numbers").symlink_to("/dev/full")
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    for folder, kept in (("ring", [3, 4, 5]), ("full", [])):
        warnings: list[str] = []
        hooks = TrainingHooks(lambda: None, lambda _: None, lambda _: None)
        recorder = Recorder(NumbersQuestion(record=str(tmp_path / folder), last=2), hooks, 3, warnings.append)
        for hooks.step in range(1, 6):
            for _ in range(2):
                recorder.output(model, model(torch.full((2, 2), torch.nan)))
            recorder.before_step(optimizer)
            recorder.after_step(optimizer)
        assert len(warnings) == (not kept)
        if kept:
            steps = list(steps_of(str(tmp_path / folder), 3))
            assert [step.step for step in steps] == kept
            measured = [(one.suspect.value, one.call, row.nonfinite) for one, row in steps[-1].tensors.items()]
            assert measured == [("output", 1, 4), ("output", 2, 4), ("parameter", 1, 0), ("parameter", 1, 0)]
