"""The condition of a stop sees the variables of its function, and changes nothing of that function."""

from __future__ import annotations

import builtins
import sys
import textwrap
from types import CodeType
from typing import Any

import pytest

import dbg_agent
from dbg_agent.breakpoints import points
from dbg_agent.breakpoints.insertion import CALL, HELD, PASSED, compile_with, have_same_variables
from dbg_agent.program import entry
from dbg_wire.records.stop_points import StopAt

SOURCE = textwrap.dedent(
    """\
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
)


def compiled(line: int, condition: str) -> CodeType:
    return with_stop(SOURCE, points.Point(StopAt(file="train.py", line=line, condition=condition)))


def with_stop(source: str, point: points.Point) -> CodeType:
    return compile_with(source.encode(), "train.py", [(point.number, point.stop)])[0]


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the values of ``step`` or ``x`` where a stop came, or the name of the function."""
    found: list[Any] = []

    def stop_at(frame: Any, *_arguments: object, before_line: bool, asked_for: bool) -> None:
        assert before_line
        assert asked_for
        variables = frame.f_locals
        found.append(variables.get("step", variables.get("x", frame.f_code.co_name)))

    monkeypatch.setattr(entry, "stop_at", stop_at)
    points.begin({}, is_rank=False, load=lambda: entry, failed=dbg_agent.go_on_without)
    for name, function in points.CALLS.items():
        monkeypatch.setattr(builtins, name, function, raising=False)
    return found


def module(monkeypatch: pytest.MonkeyPatch, line: int, condition: str) -> dict[str, Any]:
    point = points.Point(StopAt(file="train.py", line=line, condition=condition))
    monkeypatch.setattr(points, "POINTS", [point])
    names: dict[str, Any] = {"__name__": "train"}
    exec(with_stop(SOURCE, point), names)  # noqa: S102
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


def test_a_name_that_the_class_hides_is_found(monkeypatch: pytest.MonkeyPatch, reached: list[Any]) -> None:
    assert module(monkeypatch, 15, "__x == 1 and rank == 7")["Model"]().forward(1) == 8
    assert reached == ["forward"]


@pytest.mark.parametrize(
    ("line", "condition"), [(7, "step == 1"), (5, "rank == 1"), (5, "steps == 1"), (7, "(new := 5)"), (7, "[step]")]
)
def test_no_function_has_other_variables_for_a_condition(line: int, condition: str) -> None:
    assert have_same_variables(compile(SOURCE, "train.py", "exec", dont_inherit=True), compiled(line, condition))


def test_what_only_a_frame_can_tell_is_asked_there() -> None:
    def calls(code: CodeType) -> set[str]:
        inner = [calls(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
        return {name for name in code.co_names if name.startswith("__dbg")}.union(*inner)

    assert calls(compiled(7, "step == 1")) >= {PASSED, HELD}
    for line, condition in ((5, "steps == 1"), (7, "(step := 5)"), (7, "any(y for y in [step])"), (12, "width == 2")):
        assert calls(compiled(line, condition)) == {CALL}


def test_what_the_stop_raises_comes_out_and_is_not_the_conditions(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], reached: list[Any]
) -> None:
    names = module(monkeypatch, 7, "step == 1")

    def interrupted(*_arguments: object, before_line: bool, asked_for: bool) -> None:
        assert before_line
        assert asked_for
        reached.append("stopped")
        raise ValueError("by a signal handler of the program")

    monkeypatch.setattr(entry, "stop_at", interrupted)
    with pytest.raises(ValueError, match="by a signal handler"):
        names["train"](3)
    assert reached == ["stopped"]
    assert capfd.readouterr().err == ""


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
    assert lines_traced(compiled(7, condition)) == lines_traced(compile(SOURCE, "train.py", "exec"))


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
