"""A value is the same text in a terminal, a program, a notebook, an agent and an IDE, where its parts open."""

from __future__ import annotations

import asyncio
import html
import re
import sys
from contextlib import closing
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

import dbg_client
from dbg_agent.values import tensors
from dbg_client import Answer, RankError, Stop
from dbg_client.api.answers import safe_text
from dbg_client.notebook import RanksMagic
from dbg_wire.records.inspection import Parts
from tests.support.broker import running_broker
from tests.support.environment import clean_environment
from tests.support.ide import Ide, Refused, ide
from tests.support.inspecting import looking
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states
from tests.support.requirements import needs_torch
from tests.support.stopped_rank import start_stopped
from tests.support.time_unit import seconds

pytestmark = needs_torch


TRAIN = """\
import dbg_agent, torch

class Odd:
    def __repr__(self):
        return "one\\x1b[2J\\ntwo\\ttabs\\u202e"

class Raises:
    def __repr__(self):
        raise RuntimeError("no\\x1b[2J repr")

tensor = torch.arange(12.0).reshape(3, 4)
nan = torch.full((1000,), float("nan"))
config = {"lr": 0.1, "betas": (0.9, 0.95), "nested": {"a": [1, 2, tensor]}, 3: None}
many = list(range(100000))
text = "x" * 50000
escape = "\\x1b[2J\\x1b]0;title\\x07 & <b>"
odd, raises = Odd(), Raises()
dbg_agent.set_trace()
"""

VALUES = ("tensor", "nan", "config", "many", "text", "escape", "odd", "raises", "(tensor.sum(), config['lr'])")
ERRORS = ("no_such_name", "1 / 0", "escape +", "config['\x1b[2J']")
CLEAR_SCREEN = "\x1b[2J"


def test_each_face_shows_the_same_text_of_a_value(
    processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_broker(processes, home)
    monkeypatch.setenv("DBG_HOME", str(home))
    start_ranks(processes, home, TRAIN, 1)
    wait_until_states(home, {0: "stopped"}, timeout=seconds(60))

    with (
        dbg_client.connect(timeout=seconds(20)) as broker,
        broker.job()[0].attach() as stop,
        ide(home) as window,
    ):
        window.attach()
        frame = int(window.top(window.stop_of(0))["id"])
        answers = {one: broker.job().eval(one) for one in (*VALUES, *ERRORS)}
        tables = asyncio.run(tables_of_an_agent(home, list(answers)))
        for expression, answer in answers.items():
            (group,) = answer.groups
            assert group.kind == ("value" if expression in VALUES else "error"), group
            assert CLEAR_SCREEN not in group.text
            told = set(told_at_a_stop(stop, expression))
            assert told == {group.text}
            assert told_to_an_ide(window, expression, frame) == group.text
            assert [*answer.values.values(), *answer.errors.values()] == [group.text]
            terminal = attach(home, "eval", "0", expression).stdout
            assert CLEAR_SCREEN not in terminal
            assert terminal == str(answer)
            assert tables[expression] == terminal.rstrip("\n")
            assert notebook_text(expression) == group.text
        named = [one for one in VALUES if one.isidentifier()]
        listed = stop.locals()
        assert {one: listed[one] for one in named} == {one: answers[one].groups[0].text for one in named}


def told_at_a_stop(stop: Stop, expression: str) -> list[str]:
    """Return what a program that holds the keyboard is told, and what asks for its parts."""
    told = []
    for ask in (stop.eval, lambda text: stop.inspect(text).text):
        try:
            told.append(ask(expression))
        except RankError as error:
            told.append(safe_text(error.text))
    return told


def told_to_an_ide(window: Ide, expression: str, frame: int) -> str:
    """Return what a watched expression shows."""
    try:
        return window.evaluate(expression, frame, "watch")
    except Refused as refusal:
        # An error names its rank, as RankError does.
        return str(refusal).partition(": ")[2]


def notebook_text(expression: str) -> str:
    """Return the last cell of the table that a notebook shows."""
    shown: list[Answer] = []
    with closing(RanksMagic(shown.append)) as magic:
        magic("0", expression)
    cells = re.findall(r"<td><(?:code|pre)>(.*?)</(?:code|pre)></td>", shown[0]._repr_html_(), re.DOTALL)
    return html.unescape(cells[-1])


async def tables_of_an_agent(home: Path, expressions: list[str]) -> dict[str, str]:
    """Return what the tool `eval` answers to each expression, further lines included."""
    environment = {**clean_environment({}, home), "DBG_HOME": str(home)}
    server = StdioServerParameters(command=sys.executable, args=["-m", "dbg_client", "mcp"], env=environment)
    tables = {}
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        for expression in expressions:
            (content,) = (await session.call_tool("eval", {"expression": expression})).content
            assert isinstance(content, TextContent)
            tables[expression] = content.text
    return tables


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


def test_tensors_are_opened_with_the_text_that_expressions_have(
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
        rows = look.parts(scope["large"], parts=Parts.INDEXED, begin=998)
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
