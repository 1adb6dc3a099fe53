"""A stop's call is put where a debugger would halt, and nothing else of the module changes."""

from __future__ import annotations

import dis
import sys
import textwrap
import traceback
from types import CodeType
from typing import Any

import pytest

from dbg_agent.breakpoints.insertion import CALL, Placed, compile_with, first_line_of
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
        (22, 22, 1),
        (24, 24, 5),  # the head of a loop: before each turn, and once when it is over
        (25, 25, 4),
        (26, 26, 1),
        (27, 27, 3),  # elif
        (28, 28, 1),
        (29, 31, 2),  # empty, and else
        (32, 32, 1),
        (33, 33, 1),
        (34, 34, 1),
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


def test_a_match_and_the_loop_in_a_loop_count_for_themselves() -> None:
    source = textwrap.dedent(
        """\
        for x in (1, 2):
            for y in (1, 2):
                match y:
                    case 1:
                        continue
                    case 2:
                        pass
            else:
                continue
        """
    )
    assert lines_of_stops(1, source)[1] == [1, 1, 1]
    assert lines_of_stops(2, source)[1] == [2] * 6
    assert lines_of_stops(4, source)[1] == [4, 4]
    assert lines_of_stops(7, source)[1] == [7, 7]


@pytest.mark.parametrize(("function", "line"), [("train", 23), ("Model.loss", 16), ("one_line", 39)])
def test_a_stop_in_a_function_is_at_its_first_line_with_code(function: str, line: int) -> None:
    placed, reached, names = run(SOURCE, StopIn(module="train", function=function))
    assert placed == Placed(line)
    assert set(reached) <= {line}
    names["one_line"]()
    assert reached
    assert names["Model"].loss.__doc__ == "Return the loss."


def test_a_function_of_nothing_but_a_docstring_can_be_stopped_in() -> None:
    placed, reached, names = run('def f():\n    """Doc."""\n', StopIn(module="m", function="f"))
    names["f"]()
    assert (placed, reached, names["f"].__doc__) == (Placed(2), [2], "Doc.")


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


def test_a_loop_with_a_stop_behind_it_runs_the_same_instructions() -> None:
    loop = "def train(steps):\n    for step in range(steps):\n        step += 1\n    return step\n"
    plain = compile(loop, "train.py", "exec").co_consts[0]
    stopping = compile_with(loop.encode(), "train.py", [(0, StopAt(file="train.py", line=4))])[0].co_consts[0]
    assert in_lines(plain, {2, 3}) == in_lines(stopping, {2, 3})
    assert in_lines(plain, {4}) != in_lines(stopping, {4})


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


def in_lines(code: CodeType, lines: set[int]) -> list[str]:
    return [name for name, line in instructions(code) if line in lines]


def test_tracebacks_are_those_of_the_source() -> None:
    source = "def f():\n    x = 1\n\n    return x / 0\nf()\n"
    numbers = []
    for line in (2, 4):
        with pytest.raises(ZeroDivisionError) as caught:
            lines_of_stops(line, source)
        frames = traceback.extract_tb(caught.value.__traceback__)
        numbers.append([frame.lineno for frame in frames if frame.filename == "train.py"])
    assert numbers == [[5, 4], [5, 4]]


def test_what_is_no_python_raises_what_compile_raises() -> None:
    with pytest.raises(SyntaxError):
        compile_with(b"def f(:\n", "train.py", [])


LOSS, ONE_LINE = (1 + SOURCE[: SOURCE.index(head)].count("\n") for head in ("def loss", "def one_line"))


@pytest.mark.parametrize(
    ("function", "line", "begins"),
    [
        ("loss", LOSS - 1, LOSS + 3),
        ("loss", LOSS, LOSS + 3),
        ("loss", LOSS + 3, LOSS + 3),
        ("train", LOSS, LOSS),
        ("one_line", ONE_LINE, ONE_LINE),
    ],
    ids=["decorator", "head", "body", "another function's head", "all in one line"],
)
def test_a_function_begins_behind_its_head_and_docstring(function: str, line: int, begins: int) -> None:
    assert first_line_of(SOURCE, function, line) == begins
