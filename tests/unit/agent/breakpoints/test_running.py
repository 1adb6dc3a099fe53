"""Breakpoints that are set while the program runs, in every kind of code, and the threads that stop there."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType

import pytest

import dbg_agent
from dbg_agent.breakpoints import compiled, importing, points, reached
from dbg_agent.frames.stacks import all_frames
from dbg_agent.program import entry, own_rank
from dbg_wire.records.breakpoints import BreakpointWish, LineOfFile
from dbg_wire.records.stop_points import StopAt
from tests.conftest import Approved
from tests.support.calls import with_calls_left
from tests.unit.agent.breakpoints.asking import ask, line_of, loaded, stopped_at, wish
from tests.unit.agent.pdb_driver import Driver, drive

PROGRAM = """\
import asyncio
import functools

def train(steps):
    total = 0
    for step in range(steps):
        total += step  # adds
        total += 1
    return total

def outer(scale):
    def inner(number):
        scaled = number * scale  # closure
        return scaled

    return inner

scaled_by_two = outer(2)

def numbers(count):
    for number in range(count):
        yield number  # generator
        number += 1  # resumed

async def gather(count):
    total = 0
    for number in range(count):
        await asyncio.sleep(0)
        total += number  # coroutine
    return total

def squares(count):
    listed = [
        number * number  # comprehension
        for number in range(count)
    ]
    return sum(listed)

def decorated(function):
    @functools.wraps(function)
    def call(*arguments):
        return function(*arguments)

    return call

@decorated
def doubled(number):
    twice = 2 * number  # decorated
    return twice

class Model:
    def __init__(self, weight):
        self.weight = weight

    @property
    def cost(self):
        found = self.weight + 1  # property
        return found

    @classmethod
    def made(cls, weight):
        made = cls(weight)  # classmethod
        return made

def passes(queue, turns):
    for _ in range(turns):
        queue.get()
        seen = queue.qsize()  # within a loop
    return turns
"""


@pytest.fixture
def program(tmp_path: Path) -> ModuleType:
    return loaded(tmp_path, PROGRAM)


def stops(driver: Driver, program: ModuleType, text: str, run: Callable[[], object], *shown: str) -> object:
    """Set a breakpoint, run, and see it stop there as often as there are values of the line's ``shown`` variable."""
    (state,) = ask(driver, wish(program, text))
    assert state.is_set
    assert state.problem == ""

    def script() -> None:
        for expected in shown:
            name, _, value = expected.partition("=")
            assert driver.output_of(f"p {name}") == f"{value}\n"
            assert stopped_at(driver) == line_of(program, text)
            if expected is shown[-1]:
                assert ask(driver, clear=[wish(program, text)]) == ()
            driver.say("c")

    finish = drive(driver, script)
    result = run()
    finish()
    return result


def in_thread(program: ModuleType) -> object:
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(program.train(2)))
    thread.start()
    thread.join()
    return done[0]


Run = Callable[[ModuleType], object]
CODE: dict[str, tuple[str, Run, tuple[str, ...], object]] = {
    "running function": ("# adds", lambda one: one.train(4), ("step=0", "step=1", "step=2"), 10),
    "thread": ("# adds", in_thread, ("step=0", "step=1"), 3),
    "closure made before": ("# closure", lambda one: one.scaled_by_two(4), ("number=4",), 8),
    "closure made afterwards": ("# closure", lambda one: one.outer(3)(4), ("scale=3",), 12),
    "generator": ("# resumed", lambda one: list(one.numbers(2)), ("number=0", "number=1"), [0, 1]),
    "coroutine": ("# coroutine", lambda one: asyncio.run(one.gather(3)), ("number=0", "number=1"), 3),
    "decorated": ("# decorated", lambda one: one.doubled(3), ("number=3",), 6),
    "class method": ("# classmethod", lambda one: one.Model.made(3).weight, ("weight=3",), 3),
    "property": ("# property", lambda one: one.Model(3).cost, ("self.weight=3",), 4),
}
if sys.version_info >= (3, 12):
    CODE["comprehension"] = ("# comprehension", lambda one: one.squares(3), ("number=0", "number=1"), 5)


@pytest.mark.parametrize(("text", "run", "shown", "result"), CODE.values(), ids=CODE)
def test_code_of_any_kind_stops_at_each_turn(
    driver: Driver, program: ModuleType, text: str, run: Run, shown: tuple[str, ...], result: object
) -> None:
    assert stops(driver, program, text, lambda: run(program), *shown) == result
    assert sys.gettrace() is None


@contextmanager
def passing(program: ModuleType) -> Iterator[Callable[[], None]]:
    """Have another thread wait within ``passes``; a call lets it make its turns, and end."""
    queue: SimpleQueue[int] = SimpleQueue()
    thread = threading.Thread(target=program.passes, args=(queue, 3))
    thread.start()
    while thread.ident is None or "get" not in str(all_frames()[thread.ident].f_code.co_names):
        time.sleep(0)

    def go_on() -> None:
        for _ in range(3):
            queue.put(1)
        thread.join()

    yield go_on


if sys.version_info >= (3, 12):

    def test_functions_that_run_now_stop(driver: Driver, program: ModuleType) -> None:
        with passing(program) as go_on:
            assert stops(driver, program, "# within a loop", go_on, "turns=3") is None

else:

    def test_a_function_that_runs_now_is_told_and_stops_from_its_next_call_on(
        driver: Driver, program: ModuleType
    ) -> None:
        with passing(program) as go_on:
            (state,) = ask(driver, wish(program, "# within a loop"))
            assert (state.is_set, state.problem) == (True, compiled.RUNS)
            go_on()
        queue: SimpleQueue[int] = SimpleQueue()
        queue.put(1)
        assert stops(driver, program, "# within a loop", lambda: program.passes(queue, 1), "turns=1") == 1


def test_a_file_that_is_loaded_later_stops_from_its_first_line_on(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "later.py").write_text("began = 1\n\n\ndef later(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    file = str(tmp_path / "later.py")
    states = ask(driver, BreakpointWish(file=file, line=1), BreakpointWish(file=file, line=5))
    assert [(one.is_set, bool(one.problem)) for one in states] == [(True, True)] * 2

    def script() -> None:
        driver.prompt()
        assert stopped_at(driver) == 1
        driver.say("c")
        assert driver.output_of("p x") == "4\n"
        assert [(one.is_set, one.problem) for one in ask(driver)] == [(True, "")] * 2
        ask(driver, clear=[LineOfFile(file=file, line=1), LineOfFile(file=file, line=5)])
        driver.say("c")

    finish = drive(driver, script)
    assert importlib.import_module("later").later(4) == 5
    finish()
    sys.modules.pop("later")


WITH_STOP = """\
def both(number):
    twice = 2 * number  # stop
    return twice  # breakpoint
"""


def with_stop(point: points.Point, monkeypatch: pytest.MonkeyPatch, driver: Driver, folder: Path) -> list[int]:
    """Have a module that can be imported hold a stop; return the numbers at which the program stops there."""
    (folder / "both.py").write_text(WITH_STOP)
    seen: list[int] = []
    points.begin({}, is_rank=False, load=lambda: entry, failed=dbg_agent.go_on_without)
    for name, function in points.CALLS.items():
        monkeypatch.setattr(builtins, name, function, raising=False)
    monkeypatch.setattr(points, "POINTS", [point])
    monkeypatch.setattr(entry, "stop_at", lambda frame, *_, **__: seen.append(frame.f_locals["number"]))
    monkeypatch.setattr(own_rank, "_rank", driver.rank)
    monkeypatch.setattr(sys, "meta_path", [importing._finder, *sys.meta_path])
    monkeypatch.syspath_prepend(folder)
    return seen


@pytest.mark.parametrize("is_loaded_before", [True, False])
def test_a_file_with_a_stop_of_the_command_line_has_breakpoints_as_well(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_loaded_before: bool
) -> None:
    file = str(tmp_path / "both.py")
    point = points.Point(StopAt(file=file, line=2, condition="number == 5"))
    seen = with_stop(point, monkeypatch, driver, tmp_path)
    if is_loaded_before:
        importlib.import_module("both")
    wished = BreakpointWish(file=file, line=3)
    (state,) = ask(driver, wished)
    assert (state.is_set, bool(state.problem)) == (True, not is_loaded_before)
    module = importlib.import_module("both")
    assert stops(driver, module, "# breakpoint", lambda: module.both(4), "number=4") == 8
    assert [module.both(number) for number in (4, 5)] == [8, 10]
    assert (seen, point.counted) == ([5], 1)
    sys.modules.pop("both")


def test_a_stop_of_the_command_line_does_not_stop_where_a_breakpoint_has_just_done(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = points.Point(StopAt(file=str(tmp_path / "both.py"), line=2))
    seen = with_stop(point, monkeypatch, driver, tmp_path)
    module = importlib.import_module("both")
    assert module.both(3) == 6
    assert stops(driver, module, "# stop", lambda: module.both(4), "number=4") == 8
    assert module.both(5) == 10
    assert (seen, point.counted) == ([3, 5], 3)
    sys.modules.pop("both")


def test_a_log_point_of_a_running_rank_prints(
    driver: Driver, program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(driver, wish(program, "# adds", "step > 1", "% 2", "at {step}"))
    program.train(6)
    assert capsys.readouterr().out == "at 3\nat 5\n"
    (state,) = ask(driver)
    assert state.hits_so_far == 4
    assert ask(driver, clear=[wish(program, "# adds")]) == ()


@pytest.mark.parametrize("condition", ["nothing > step", "__import__('sys').exit(3)"])
def test_a_condition_that_raises_is_told_once_and_stops(
    approved: Approved, driver: Driver, program: ModuleType, capsys: pytest.CaptureFixture[str], condition: str
) -> None:
    ask(driver, wish(program, "# adds", condition))
    problems: list[str] = []

    def script() -> None:
        assert driver.output_of("p step") == "0\n"
        problems.append(ask(driver)[0].problem)
        driver.say("c")
        # The rank may be on its way to the next stop.
        ask(driver, clear=[wish(program, "# adds")])
        driver.say("c")

    finish = drive(driver, script)
    program.train(3)
    finish()
    approved([*problems, *(line for line in capsys.readouterr().err.splitlines() if "raised" in line)])


def test_a_breakpoint_in_a_text_that_has_changed_since_it_was_loaded_is_told_so(
    approved: Approved, driver: Driver, program: ModuleType
) -> None:
    # With a breakpoint there the loaded text is known, and the line is one of that text.
    adds = wish(program, "# adds")
    assert [state.problem for state in ask(driver, adds)] == [""]
    file = Path(adds.file)
    file.write_text("# A line more.\n" + file.read_text().replace("# adds", "+ 1"))
    problems = {state.asked: state.problem for state in ask(driver, BreakpointWish(file=adds.file, line=adds.line + 1))}
    approved(problems[adds.line + 1])


def test_a_step_onto_the_line_of_a_breakpoint_halts_there_once(driver: Driver, program: ModuleType) -> None:
    adds = line_of(program, "# adds")
    (first, second) = ask(driver, wish(program, "total = 0"), wish(program, "# adds"))
    assert (first.problem, second.problem) == ("", "")

    def script() -> None:
        seen = []
        for command in ("n", "n", "n", "n", "n", "c"):
            driver.prompt()
            seen.append(stopped_at(driver))
            driver.say(command)
        assert seen == [adds - 2, adds - 1, adds, adds + 1, adds - 1, adds]
        assert driver.output_of("p step") == "2\n"
        ask(driver, clear=[wish(program, "total = 0"), wish(program, "# adds")])
        driver.say("c")

    finish = drive(driver, script)
    assert program.train(4) == 10
    finish()


def test_close_to_the_recursion_limit_a_breakpoint_is_passed_by(driver: Driver, program: ModuleType) -> None:
    ask(driver, wish(program, "# decorated"))
    assert with_calls_left(30, lambda: program.doubled(4)) == 8
    assert len(driver.rank.program.warned) == 1
    assert stops(driver, program, "# decorated", lambda: program.doubled(4), "number=4") == 8


def test_what_a_child_has_told_stays_whatever_another_child_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(reached.VARIABLE, raising=False)
    environ: dict[str, str] = {}
    reached.share(environ)
    where = environ[reached.VARIABLE]
    reached.note(where, 1, reached.HELD)
    reached.note(where, 1, reached.REACHED)
    assert [reached.noted(where, number) for number in range(3)] == [0, reached.HELD, 0]
    os.close(int(where.split(":")[1]))
