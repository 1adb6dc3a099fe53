"""Tensors and arrays open in an IDE, with the texts that expressions have."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbg_agent.values import tensors
from dbg_wire.records.inspection import Parts
from tests.support.broker import running_broker
from tests.support.inspecting import looking
from tests.support.processes import Processes
from tests.support.requirements import needs_torch
from tests.support.stopped_rank import start_stopped

pytestmark = needs_torch


PROGRAM = """\
import weakref
import dbg_agent, numpy, torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 2)
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        self.register_buffer("scale", torch.ones(2))
        self.depth = 7

class Odd(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError("code of the program")

def train():
    model = Model()
    weights = torch.arange(6.0).reshape(3, 2).requires_grad_()
    loss = (weights * 2).sum()
    large = torch.zeros(1000, 1000)
    empty, scalar, meta = torch.zeros(0, 3), torch.tensor(3.5), torch.zeros(4, device="meta")
    odd = torch.ones(2, 2).as_subclass(Odd)
    grid = numpy.arange(6).reshape(2, 3)
    table = numpy.array([(1, 2.5)], dtype=[("count", "i4"), ("share", "f8")])
    gone = torch.ones(5)
    ended = weakref.ref(gone)
    dbg_agent.set_trace()
    print("weights", weights.tolist(), "bias", model.first.bias.tolist(), grid.tolist(), flush=True)
    del gone
    print("ended", ended() is None, flush=True)
    dbg_agent.set_trace()

train()
"""


def test_parts_of_tensors_have_the_same_text_as_expressions(
    processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_broker(processes, home)
    monkeypatch.setenv("DBG_HOME", str(home))
    rank = start_stopped(processes, home, PROGRAM)
    with looking() as look:
        scope = look.parts()
        names = ("weights", "loss", "large", "scalar", "grid", "table", "model", "odd", "meta", "empty")
        for name in names:
            assert look.value(name).text == scope[name].text
            for part in look.parts(scope[name], count=30).values():
                if part.expression:
                    assert look.value(part.expression).text == part.text, part
        assert [(scope[name].indexed, scope[name].text) for name in ("weights", "meta", "empty", "scalar")] == [
            (3, "tensor 3x2 float32 cpu requires_grad: [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]"),
            (0, f"tensor 4 float32 meta [values not compared: {tensors.NO_ELEMENTS}]"),
            (0, "tensor 0x3 float32 cpu: []"),
            (0, "tensor scalar float32 cpu: 3.5"),
        ]
        weights = look.parts(scope["weights"])
        assert [*weights][:3] == ["shape", "dtype", "device"]
        assert "grad" not in look.parts(scope["loss"])
        rows = look.parts(scope["large"], parts=Parts.INDEXED, start=998)
        assert [*rows] == ["998", "999"]
        assert look.parts(look.parts(scope["table"], parts=Parts.INDEXED)["0"])["share"].text == (
            look.value("table[0]['share']").text
        )
        model = look.parts(scope["model"])
        assert [*model] == ["first", "layers", "scale", "training", "depth"]
        assert look.parts(look.parts(model["layers"])["0"])["weight"].expression == "model.layers._modules['0'].weight"
        assert look.parts(scope["odd"], parts=Parts.INDEXED)["0"].expression == ""
        assert look.parts(look.parts(scope["odd"])["0"])["1"].text.endswith(": 1.0")
        assert look.assign("1", "torch.tensor([7.0, 8.0])", scope["weights"]).text.endswith(": [7.0, 8.0]")
        assert look.assign("bias", "torch.nn.Parameter(torch.zeros(2))", model["first"]).type == "Parameter"
        assert look.assign("0", "9", scope["grid"]).text == "array 3 int64: [9, 9, 9]"
        look.go_on()
        rank.wait_for_output(
            r"weights \[\[0.0, 1.0\], \[7.0, 8.0\], \[4.0, 5.0\]\] bias \[0.0, 0.0\] \[\[9, 9, 9\], \[3"
        )
        rank.wait_for_output("ended True")
