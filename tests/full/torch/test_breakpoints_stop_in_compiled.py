"""A stop in a function that torch compiles breaks no graph, and users are told that the stop won't come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.agent.test_breakpoints import run
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

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
    assert result.stderr.count("torch.compile ") == len(STOPS) + 2
    assert "Warning" not in result.stderr
    assert "never reached" not in result.stderr


BREAKPOINT = """\
import torch, model
from dbg_wire.records.breakpoints import BreakpointWish
from tests.unit.agent.breakpoints.asking import ask
from tests.unit.agent.pdb_driver import Driver

driver = Driver()
wish = BreakpointWish(file=model.__file__, line=9, condition="y.sum() < 0")
assert [one.problem for one in ask(driver, wish)] == [""]
assert torch.compile(model.f, fullgraph=True, backend="eager")(torch.ones(2)).item() == 25
print(ask(driver)[0].problem)
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="code holds no calls for breakpoints")
def test_nor_does_a_breakpoint_in_it(folder: Path) -> None:
    (folder / "breaks.py").write_text(BREAKPOINT)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "breaks.py"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=seconds(60),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("torch.compile ")
