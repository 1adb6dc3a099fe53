"""A stop in a function that torch compiles breaks no graph, and changes no result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.agent.test_breakpoints import run
from tests.support.requirements import needs_torch

pytestmark = needs_torch


MODEL = """\
def inner(x, turns):
    y = x
    for turn in range(turns):
        y = y * 2 + turn
    return y

def f(x):
    y = inner(x, 3)
    z = y.sum()
    return z + 1
"""


COMPILES = """\
import json, torch, model
from torch._dynamo.utils import counters

class Model(torch.nn.Module):
    def forward(self, x):
        return model.f(x)

def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(model.f, x, use_reentrant=False)

import torch.utils.checkpoint
results = []
for options in ({"backend": "eager"}, {"backend": "aot_eager", "dynamic": True}):
    torch._dynamo.reset()
    for function in (model.f, Model(), checkpointed):
        compiled = torch.compile(function, fullgraph=True, **options)
        results += [compiled(torch.ones(size, requires_grad=True)).item() for size in (2, 3)]
results.append(torch.export.export(Model(), (torch.ones(2),), strict=True).module()(torch.ones(2)).item())
print(json.dumps([results, counters["graph_break"], counters["unimplemented"]]))
"""


STOPS = (
    "model.py:9",
    "model.py:4, turn == 1",
    "model.py:4, turn == 9",
    "model.py:3, any(turn == n for n in (1, 2))",
    "model.py:9, y.sum() > 0",
    "model.py:9, rank == 0",
    "model.py:2, 1 / 0",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "compiles.py").write_text(COMPILES)
    return tmp_path


def test_no_stop_breaks_a_graph_or_changes_a_result(folder: Path) -> None:
    result = run(folder, "compiles.py", at="\n".join(STOPS), inside="model:inner\nmodel:f")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [[25, 37] * 6 + [25], {}, {}]
    assert "Warning" not in result.stderr
