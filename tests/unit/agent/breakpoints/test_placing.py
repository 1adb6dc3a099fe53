"""A stop is made where a debugger would halt, and nothing else of the module changes."""

from __future__ import annotations

import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import dbg_agent
from dbg_agent.breakpoints import startup_stops
from dbg_agent.breakpoints.placing import Placed, place, place_in
from dbg_agent.program import entry
from dbg_wire.records.stop_points import StopAt, StopIn
from tests.conftest import Approved
from tests.unit.agent.breakpoints.asking import executed, stops_served

WITHIN = sys.version_info >= (3, 12)

SOURCE = textwrap.dedent(
    '''\
    """What the module is for."""
    from __future__ import annotations

    import os


    class Model:
        """A model."""

        size: int

        @staticmethod
        def loss(x: int) -> int:
            """Return the loss."""
            # halved
            return (
                x
                // 2
            )


    def train(steps):
        total = 0
        for step in range(steps):
            if step == 1:
                continue
            elif step == 2:
                total += 10

            else:
                total += Model.loss(step)
        try:
            total = total / 0
        except ZeroDivisionError:
            total += 1
        return total


    def one_line(): return 1

    result = train(4)
    '''
)


@pytest.fixture
def halts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Return the lines at which the program stops, with the value of ``step`` or ``x`` there if it has one."""
    found: list[Any] = []

    def stop_at(frame: FrameType, *_arguments: object, before_line: bool, asked_for: bool) -> None:
        assert before_line and asked_for  # noqa: PT018
        found.append((frame.f_lineno, frame.f_locals.get("step", frame.f_locals.get("x"))))

    monkeypatch.setattr(entry, "stop_at", stop_at)
    startup_stops.start({}, is_rank=False, load=lambda: entry, failed=dbg_agent.warn_and_continue)
    monkeypatch.setattr(startup_stops, "STARTUP_STOPS", [])
    with stops_served(monkeypatch):
        yield found


def run(folder: Path, source: str, stop: StopAt | StopIn) -> dict[str, Any]:
    """Run the program, which has a stop; return its names."""
    startup_stops.STARTUP_STOPS.append(startup_stops.StartupStop(stop))
    path = folder / "train.py"
    path.write_text(source)
    return executed(path)


@pytest.mark.parametrize(
    ("line", "stops_at", "times"),
    [
        (1, 4, 1),  # a docstring
        (2, 4, 1),  # an import of the future
        (4, 4, 1),
        (7, 7, 2 if WITHIN else 1),  # the class, and the begin of its body
        (8, 16, 2),  # a docstring, and a declaration; then a decorator
        (15, 16, 2),  # a comment
        (17, 17 if WITHIN else 16, 4 if WITHIN else 2),  # inside a statement, which comes back to the line
        (24, 24, 5 if WITHIN else 1),  # the head of a loop: before each turn, and once when it is over
        (25, 25, 4),
        (27, 27, 3),  # elif
        (29, 31, 2),  # empty, and else
        (32, 32, 1),
        (35, 35, 1),
        (39, 39, 1 if WITHIN else 0),  # behind the colon; where lines are told, the `def` is one
    ],
)
def test_a_stop_is_at_its_line_or_the_next_with_code(
    tmp_path: Path, halts: list[Any], line: int, stops_at: int, times: int
) -> None:
    assert place(SOURCE.encode(), "train.py", line) == Placed(stops_at)
    names = run(tmp_path, SOURCE, StopAt(file="train.py", line=line))
    assert [line for line, _ in halts] == [stops_at] * times
    assert names["result"] == 1 + 10 + 0 + 1
    assert names["Model"].__annotations__ == {"size": "int"}
    assert not [name for name in names if name.startswith("__dbg")]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [(SOURCE, 99), ("x = 1\n# one\n# two\n", 3), (SOURCE, "loss")],
    ids=["behind the last line", "no code from there on", "no such function"],
)
def test_an_impossible_stop_is_reported(approved: Approved, source: str, wanted: int | str) -> None:
    placed = place(source.encode(), "train.py", wanted)
    assert placed.line is None
    approved(placed.problem)


@pytest.mark.parametrize(("function", "line"), [("train", 23), ("Model.loss", 16), ("one_line", 39)])
def test_a_stop_in_a_function_is_at_its_first_line_with_code(
    tmp_path: Path, halts: list[Any], function: str, line: int
) -> None:
    names = run(tmp_path, SOURCE, StopIn(module="train", function=function))
    names["one_line"]()
    assert {line for line, _ in halts} == {line}


# --------------------- the condition of a stop sees the variables of its function, and changes nothing of that function

TRAIN = """\
limit = 3
def train(steps, rank=None):
    seen = 0
    def inner(x):
        return x + 1
    for step in range(steps):
        seen += inner(step)
    return seen

class Model:
    width = 2
    height = 3
    def forward(self, __x):
        rank = 7
        return __x + rank
"""


@pytest.mark.parametrize(
    ("line", "condition", "stops"),
    [
        (7, "step == 1", [1]),
        (7, "step == limit - 1", [2]),
        (6, "seen > 2", [1, 2] if WITHIN else []),  # at the head of a loop
        (7, "inner(step) == 2", [1]),
        (7, "rank is None", [0, 1, 2]),  # the function's own `rank`
        (5, "rank == 0", [0, 1, 2]),
        (5, "x in (0, 2) and rank == 0", [0, 2]),
        (5, "rank == 1", []),
        (5, "steps == 3", [0, 1, 2]),  # not a variable of that function: raises
        (7, "any(step == y for y in (0, 2))", [0, 2]),
        (7, "(seen := 5) and step == 1", [1]),
        (7, "step.size > 0", [0, 1, 2]),
        (12, "width == 2", [None]),
        (1, "rank == 0", [None]),
    ],
)
def test_a_condition_is_evaluated_in_the_frame(
    tmp_path: Path, halts: list[Any], line: int, condition: str, stops: list[Any]
) -> None:
    names = run(tmp_path, TRAIN, StopAt(file="train.py", line=line, condition=condition))
    assert names["train"](3) == 6
    assert [value for _, value in halts] == stops


def test_a_condition_that_raises_leaves_no_exception_behind(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], halts: list[Any]
) -> None:
    names = run(tmp_path, TRAIN, StopAt(file="train.py", line=7, condition="1 / 0"))
    try:
        raise KeyError("the program's own")
    except KeyError:
        names["train"](2)
        assert sys.exc_info()[0] is KeyError
    assert [value for _, value in halts] == [0, 1]
    assert capfd.readouterr().err.count("the condition raised ZeroDivisionError") == 1


@pytest.mark.filterwarnings("error")
def test_warnings_of_the_programs_text_are_neither_errors_nor_printed_again(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("pattern = '\\d'\ntotal = 0 is 0\n")
    before = list(warnings.filters)
    assert place_in(str(path), 2) == Placed(2)
    assert warnings.filters == before
