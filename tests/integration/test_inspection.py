"""An IDE looks into stopped ranks: values in levels, assignments that the program sees, completions, source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dbg_wire.inspection import Inspection, Scope, Sight
from tests.support.broker import running_broker
from tests.support.inspecting import Look, looking
from tests.support.processes import Child, Processes
from tests.support.stopped_rank import start_stopped

pytestmark = pytest.mark.integration

PROGRAM = """\
import collections, dataclasses, enum, threading
import dbg_agent

LIMIT = 5

@dataclasses.dataclass
class Config:
    width: int
    names: list

class Layer:
    depth = 3
    __slots__ = ("weight", "bias", "__dict__")
    def __init__(self):
        self.weight = [0.5, 1.5]
        self.extra = "extra"
    @property
    def norm(self):
        print("computed")
        return sum(self.weight)

Point = collections.namedtuple("Point", "x y")

def outer():
    kept = "of outer"
    def train(step):
        config = Config(4, ["a", "b"])
        layer = Layer()
        table = {"loss": 0.25, 3: {"deep": [1, 2, {"deeper": (1, 2)}]}, Point(1, 2): None}
        numbers = list(range(1000))
        unique = {1, 2, 3}
        point = Point(1, 2)
        word = "word" * 1000
        kept
        dbg_agent.set_trace()
        print("step", step, "width", config.width, "table", table["loss"], "limit", LIMIT, kept, flush=True)
        dbg_agent.set_trace()
        return step
    return train

print(outer()(7), flush=True)
"""
STOP = 35


@pytest.fixture
def rank(processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    running_broker(processes, home)
    monkeypatch.setenv("DBG_HOME", str(home))
    return start_stopped(processes, home, PROGRAM)


@pytest.fixture
def look(rank: Child) -> Iterator[Look]:
    with looking() as look:
        yield look


def test_assigned_variables_are_those_of_the_program(look: Look, rank: Child) -> None:
    scope = look.parts()
    assert look.assign("step", "step + 34").text == "41"
    assert look.assign("width", "19", scope["config"]).text == "19"
    assert look.assign("'loss'", "step", scope["table"]).text == "41"
    assert look.assign("LIMIT", "99", scope=Scope.GLOBALS).text == "99"
    assert look.value("(step, config, table['loss'], LIMIT)").text == "(41, Config(width=19, names=['a', 'b']), 41, 99)"
    look.go_on()
    rank.wait_for_output("step 41 width 19 table 41 limit 99 of outer")
    refused = look.refusal(Inspection(sight=Sight.PARTS, handle=scope["config"].handle))
    assert refused == "the rank has run on since this value was listed; list the variables again"
