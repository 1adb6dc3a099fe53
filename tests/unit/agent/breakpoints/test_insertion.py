"""A stop's call is put where a debugger would halt, and nothing else of the module changes."""

from __future__ import annotations

import builtins
import dis
import sys
import textwrap
import traceback
import warnings
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import dbg_agent
from dbg_agent.breakpoints import files, points
from dbg_agent.breakpoints.insertion import (
    CALL,
    Placed,
    compile_with,
    have_same_variables,
)
from dbg_agent.program import entry
from dbg_wire.records.stop_points import StopAt, StopIn
from tests.conftest import Approved

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


def lines_of_stops(line: int, source: str = SOURCE) -> tuple[Placed, list[int]]:
    """Return where a stop at this line is put, and the lines in which it is then reached."""
    return run(source, StopAt(file="train.py", line=line))[:2]


def run(source: str, stop: StopAt | StopIn) -> tuple[Placed, list[int], dict[str, Any]]:
    reached: list[int] = []
    code, placed = compile_with(source.encode(), "train.py", [(7, stop)])
    names: dict[str, Any] = {"__name__": "train"}

    def reach(number: int) -> None:
        assert number == 7
        reached.append(sys._getframe(1).f_lineno)

    names["__builtins__"] = {**vars(__import__("builtins")), CALL: reach}
    exec(code, names)  # noqa: S102
    return placed[0], reached, names


@pytest.mark.parametrize(
    ("line", "stops_at", "times"),
    [
        (1, 4, 1),  # a docstring
        (2, 4, 1),  # an import of the future
        (4, 4, 1),
        (7, 7, 1),
        (8, 12, 1),  # a docstring, and a declaration
        (12, 12, 1),  # a decorator
        (15, 16, 2),  # a comment
        (17, 16, 2),  # inside a statement
        (24, 24, 5),  # the head of a loop: before each turn, and once when it is over
        (25, 25, 4),
        (27, 27, 3),  # elif
        (29, 31, 2),  # empty, and else
        (32, 32, 1),
        (35, 35, 1),
        (39, 39, 0),  # behind the colon
    ],
)
def test_a_stop_is_at_its_line_or_the_next_with_code(line: int, stops_at: int, times: int) -> None:
    placed, reached = lines_of_stops(line)
    assert placed == Placed(stops_at)
    assert reached == [stops_at] * times


@pytest.mark.parametrize(
    ("source", "stop"),
    [
        (SOURCE, StopAt(file="train.py", line=99)),
        ("x = 1\n# one\n# two\n", StopAt(file="train.py", line=3)),
        (SOURCE, StopIn(module="train", function="loss")),
    ],
    ids=["behind the last line", "no code from there on", "no such function"],
)
def test_where_no_stop_can_be_is_said(approved: Approved, source: str, stop: StopAt | StopIn) -> None:
    placed = run(source, stop)[0]
    assert placed.line is None
    approved(placed.problem)


@pytest.mark.parametrize(("function", "line"), [("train", 23), ("Model.loss", 16), ("one_line", 39)])
def test_a_stop_in_a_function_is_at_its_first_line_with_code(function: str, line: int) -> None:
    placed, reached, names = run(SOURCE, StopIn(module="train", function=function))
    assert placed == Placed(line)
    assert set(reached) <= {line}
    names["one_line"]()
    assert reached
    assert names["Model"].loss.__doc__ == "Return the loss."


def test_nothing_but_the_calls_is_new() -> None:
    plain, _ = compile_with(SOURCE.encode(), "train.py", [])
    assert instructions(plain) == instructions(compile(SOURCE, "train.py", "exec", dont_inherit=True))
    _, _, names = run(SOURCE, StopAt(file="train.py", line=31))
    assert names["result"] == 1 + 10 + 0 + 1
    assert not [name for name in names if name.startswith("__dbg")]
    assert names["train"].__code__.co_firstlineno == 22
    assert names["Model"].__doc__ == "A model."
    # Annotations are text in this module, which asks for that, and in no other.
    assert names["Model"].__annotations__ == {"size": "int"}
    assert run("def f(x: int): pass\n", StopAt(file="m", line=1))[2]["f"].__annotations__ == {"x": int}


def instructions(code: CodeType) -> list[tuple[str, int | None]]:
    """Return all instructions of a module with their lines."""
    found: list[tuple[str, int | None]] = []
    line = None
    for instruction in dis.get_instructions(code):
        line = getattr(instruction, "line_number", None) or instruction.starts_line or line
        found.append((instruction.opname, int(line) if line is not None else None))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += instructions(constant)
    return found


def test_tracebacks_are_those_of_the_source() -> None:
    source = "def f():\n    x = 1\n\n    return x / 0\nf()\n"
    numbers = []
    for line in (2, 4):
        with pytest.raises(ZeroDivisionError) as caught:
            lines_of_stops(line, source)
        frames = traceback.extract_tb(caught.value.__traceback__)
        numbers.append([frame.lineno for frame in frames if frame.filename == "train.py"])
    assert numbers == [[5, 4], [5, 4]]


LOSS, ONE_LINE = (1 + SOURCE[: SOURCE.index(head)].count("\n") for head in ("def loss", "def one_line"))


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


def compiled(line: int, condition: str) -> CodeType:
    return with_stop(TRAIN, points.Point(StopAt(file="train.py", line=line, condition=condition)))


def with_stop(source: str, point: points.Point) -> CodeType:
    return compile_with(source.encode(), "train.py", [(point.number, point.stop)])[0]


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the values of ``step`` or ``x`` where a stop came, or the name of the function."""
    found: list[Any] = []

    def stop_at(frame: Any, *_arguments: object, before_line: bool, asked_for: bool) -> None:
        assert before_line and asked_for  # noqa: PT018
        variables = frame.f_locals
        found.append(variables.get("step", variables.get("x", frame.f_code.co_name)))

    monkeypatch.setattr(entry, "stop_at", stop_at)
    points.begin({}, is_rank=False, load=lambda: entry, failed=dbg_agent.go_on_without)
    for name, function in points.CALLS.items():
        monkeypatch.setattr(builtins, name, function, raising=False)
    return found


def module(monkeypatch: pytest.MonkeyPatch, line: int, condition: str) -> dict[str, Any]:
    """Return the names of the program, which has a stop."""
    point = points.Point(StopAt(file="train.py", line=line, condition=condition))
    monkeypatch.setattr(points, "POINTS", [point])
    names: dict[str, Any] = {"__name__": "train"}
    exec(with_stop(TRAIN, point), names)  # noqa: S102
    return names


@pytest.mark.parametrize(
    ("line", "condition", "stops"),
    [
        (7, "step == 1", [1]),
        (7, "step == limit - 1", [2]),
        (6, "seen > 2", [1, 2]),
        (7, "inner(step) == 2", [1]),
        (7, "rank is None", [0, 1, 2]),  # the function's own `rank`
        (5, "rank == 0", [0, 1, 2]),
        (5, "x in (0, 2) and rank == 0", [0, 2]),
        (5, "rank == 1", []),
        (5, "steps == 3", [0, 1, 2]),  # not a variable of that function: raises
        (7, "any(step == y for y in (0, 2))", [0, 2]),
        (7, "(seen := 5) and step == 1", [1]),
        (7, "step.size > 0", [0, 1, 2]),
        (12, "width == 2", ["Model"]),
        (1, "rank == 0", ["<module>"]),
    ],
)
def test_a_condition_holds_or_not_where_it_did(
    monkeypatch: pytest.MonkeyPatch, reached: list[Any], line: int, condition: str, stops: list[Any]
) -> None:
    names = module(monkeypatch, line, condition)
    assert names["train"](3) == 6
    assert reached == stops


@pytest.mark.parametrize(
    ("line", "condition"), [(7, "step == 1"), (5, "rank == 1"), (5, "steps == 1"), (7, "(new := 5)"), (7, "[step]")]
)
def test_no_function_has_other_variables_for_a_condition(line: int, condition: str) -> None:
    assert have_same_variables(compile(TRAIN, "train.py", "exec", dont_inherit=True), compiled(line, condition))


def test_a_condition_that_raises_leaves_no_exception_behind(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], reached: list[Any]
) -> None:
    names = module(monkeypatch, 7, "1 / 0")
    try:
        raise KeyError("the program's own")
    except KeyError:
        names["train"](2)
        assert sys.exc_info()[0] is KeyError
    assert reached == [0, 1]
    assert capfd.readouterr().err.count("the condition raised ZeroDivisionError") == 1


@pytest.mark.usefixtures("reached")
@pytest.mark.parametrize("condition", ["step == 1", "False"])
def test_who_steps_comes_by_each_line_as_often_as_without_the_stop(condition: str) -> None:
    assert lines_traced(compiled(7, condition)) == lines_traced(compile(TRAIN, "train.py", "exec"))


def lines_traced(code: CodeType) -> list[int]:
    """Return the lines of ``train`` that a debugger sees, in their order."""
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - a program of this test
    train, lines = names["train"], []

    def trace(frame: Any, event: str, _argument: object) -> Any:
        if frame.f_code is not train.__code__:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        train(3)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.filterwarnings("error")
def test_warnings_of_the_programs_text_are_neither_errors_nor_printed_again(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("pattern = '\\d'\ntotal = 0 is 0\n")
    before = list(warnings.filters)
    assert files.place(str(path), 2) == Placed(2)
    assert compile_with(path.read_bytes(), str(path), [(1, StopAt(file="train.py", line=2, condition="total"))])[1] == [
        Placed(2)
    ]
    assert warnings.filters == before
