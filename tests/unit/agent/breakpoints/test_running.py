"""Breakpoints that are set while the program runs, in every kind of code, and the threads that stop there."""

from __future__ import annotations

import asyncio
import importlib
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
from dbg_agent.breakpoints import startup_stops
from dbg_agent.frames.stacks import all_frames
from dbg_agent.program import entry, own_rank
from dbg_wire.records.inspection import BreakpointSpec, LineOfFile
from dbg_wire.records.stop_points import StopAt
from tests.conftest import Approved
from tests.support.calls import with_calls_left
from tests.unit.agent.breakpoints.asking import ask, stopped_at, stops_served
from tests.unit.agent.pdb_driver import Driver, drive

if sys.version_info < (3, 12):
    from dbg_agent.breakpoints.at_import import LATER

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


IS_MONITORED = sys.version_info >= (3, 12)
"""Whether functions stop that exist when the breakpoint is set."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the program's file, which can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    # Another test's program may have this name.
    sys.modules.pop("program", None)
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    yield path
    sys.modules.pop("program", None)


def served(path: Path, text: str, condition: str = "", hits: str = "", log: str = "") -> BreakpointSpec:
    lines = path.read_text().splitlines()
    line = next(number for number, one in enumerate(lines, 1) if text in one)
    return BreakpointSpec(file=str(path), line=line, condition=condition, hits=hits, log=log)


def imported(driver: Driver, path: Path, *specs: BreakpointSpec) -> ModuleType:
    """Set breakpoints as early as this Python needs it, and return the program's module."""
    module = importlib.import_module(path.stem) if IS_MONITORED else None
    states = ask(driver, *specs)
    assert all(state.is_set for state in states)
    assert {bool(state.problem) for state in states} == {module is None}
    return module or importlib.import_module(path.stem)


def stops(driver: Driver, path: Path, text: str, run: Callable[[ModuleType], object], *shown: str) -> object:
    """Set a breakpoint, run, and see it stop there as often as there are values of the line's ``shown`` variable."""
    spec = served(path, text)
    module = imported(driver, path, spec)

    def script() -> None:
        for expected in shown:
            name, _, value = expected.partition("=")
            assert driver.output_of(f"p {name}") == f"{value}\n"
            assert stopped_at(driver) == spec.line
            if expected is shown[-1]:
                assert ask(driver, clear=[spec]) == ()
            driver.reply("c")

    finish = drive(driver, script)
    result = run(module)
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
    "closure": ("# closure", lambda one: one.scaled_by_two(4), ("number=4",), 8),
    "generator": ("# resumed", lambda one: list(one.numbers(2)), ("number=0", "number=1"), [0, 1]),
    "coroutine": ("# coroutine", lambda one: asyncio.run(one.gather(3)), ("number=0", "number=1"), 3),
    "decorated": ("# decorated", lambda one: one.doubled(3), ("number=3",), 6),
    "class method": ("# classmethod", lambda one: one.Model.made(3).weight, ("weight=3",), 3),
    "property": ("# property", lambda one: one.Model(3).cost, ("self.weight=3",), 4),
}
if sys.version_info >= (3, 12):
    CODE["comprehension"] = ("# comprehension", lambda one: one.squares(3), ("number=0", "number=1"), 5)


@pytest.mark.parametrize(("text", "run", "shown", "result"), CODE.values(), ids=CODE)
def test_code_of_any_kind_stops_at_each_iteration(
    driver: Driver, path: Path, text: str, run: Run, shown: tuple[str, ...], result: object
) -> None:
    assert stops(driver, path, text, run, *shown) == result
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


if IS_MONITORED:

    def test_running_functions_stop(driver: Driver, path: Path) -> None:
        with passing(importlib.import_module("program")) as go_on:
            assert stops(driver, path, "# within a loop", lambda _: go_on(), "turns=3") is None

else:

    def test_an_existing_function_is_reported_and_stops_after_the_next_stop(driver: Driver, path: Path) -> None:
        program = importlib.import_module("program")
        (state,) = ask(driver, served(path, "# adds"))
        assert (state.is_set, state.problem) == (True, LATER)
        assert program.train(2) == 3

        def script() -> None:
            driver.prompt()
            assert [one.problem for one in ask(driver)] == [""]
            driver.reply("c")
            assert driver.output_of("p step") == "0\n"
            ask(driver, clear=[served(path, "# adds")])
            driver.reply("c")

        finish = drive(driver, script)
        driver.rank.stopping.stop(sys._getframe(), "breakpoint")
        assert program.train(2) == 3
        finish()


def test_a_file_that_is_loaded_later_stops_from_its_first_line_on(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "later.py").write_text("began = 1\n\n\ndef later(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    file = str(tmp_path / "later.py")
    states = ask(driver, BreakpointSpec(file=file, line=1), BreakpointSpec(file=file, line=5))
    assert [(one.is_set, bool(one.problem)) for one in states] == [(True, True)] * 2

    def script() -> None:
        driver.prompt()
        assert stopped_at(driver) == 1
        driver.reply("c")
        assert driver.output_of("p x") == "4\n"
        assert [(one.is_set, one.problem) for one in ask(driver)] == [(True, "")] * 2
        ask(driver, clear=[LineOfFile(file=file, line=1), LineOfFile(file=file, line=5)])
        driver.reply("c")

    finish = drive(driver, script)
    assert importlib.import_module("later").later(4) == 5
    finish()
    sys.modules.pop("later")


WITH_STOP = """\
def both(number):
    twice = 2 * number  # stop
    return twice  # breakpoint
"""


@pytest.fixture
def seen(driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Return the numbers at which a stop of the command line stops the program in ``both.py``."""
    (tmp_path / "both.py").write_text(WITH_STOP)
    seen: list[int] = []
    startup_stops.start({}, is_rank=False, load=lambda: entry, failed=dbg_agent.warn_and_continue)
    monkeypatch.setattr(
        startup_stops, "STARTUP_STOPS", [startup_stops.StartupStop(StopAt(file=str(tmp_path / "both.py"), line=2))]
    )
    monkeypatch.setattr(entry, "stop_at", lambda frame, *_, **__: seen.append(frame.f_locals["number"]))
    monkeypatch.setattr(own_rank, "_rank", driver.rank)
    monkeypatch.syspath_prepend(tmp_path)
    with stops_served(monkeypatch):
        yield seen
    sys.modules.pop("both", None)


def test_a_file_with_a_command_line_stop_can_have_breakpoints(driver: Driver, tmp_path: Path, seen: list[int]) -> None:
    assert stops(driver, tmp_path / "both.py", "# breakpoint", lambda one: one.both(4), "number=4") == 8
    assert seen == [4]


def test_a_command_line_stop_is_skipped_where_a_breakpoint_just_stopped(
    driver: Driver, tmp_path: Path, seen: list[int]
) -> None:
    def run(module: ModuleType) -> list[int]:
        return [module.both(number) for number in (4, 5)]

    assert stops(driver, tmp_path / "both.py", "# stop", run, "number=4") == [8, 10]
    assert (seen, startup_stops.STARTUP_STOPS[0].counted) == ([5], 2)


def test_a_log_point_of_a_running_rank_prints(driver: Driver, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(driver, path, served(path, "# adds", "step > 1", "% 2", "at {step}")).train(6)
    assert capsys.readouterr().out == "at 3\nat 5\n"
    (state,) = ask(driver)
    assert state.hits_so_far == 4
    assert ask(driver, clear=[served(path, "# adds")]) == ()


@pytest.mark.parametrize("condition", ["nothing > step", "__import__('sys').exit(3)"])
def test_a_condition_that_raises_is_reported_once_and_stops(
    approved: Approved, driver: Driver, path: Path, capsys: pytest.CaptureFixture[str], condition: str
) -> None:
    program = imported(driver, path, served(path, "# adds", condition))
    problems: list[str] = []

    def script() -> None:
        assert driver.output_of("p step") == "0\n"
        problems.append(ask(driver)[0].problem)
        driver.reply("c")
        driver.prompt()
        ask(driver, clear=[served(path, "# adds")])
        driver.reply("c")

    finish = drive(driver, script)
    program.train(3)
    finish()
    approved([*problems, *(line for line in capsys.readouterr().err.splitlines() if "raised" in line)])


def test_a_breakpoint_in_a_changed_source_file_reports_the_change(
    approved: Approved, driver: Driver, path: Path
) -> None:
    importlib.import_module("program")
    path.write_text("# A line more.\n" + path.read_text())
    (state,) = ask(driver, served(path, "# adds"))
    approved(state.problem)


def test_a_step_onto_the_line_of_a_breakpoint_halts_there_once(driver: Driver, path: Path) -> None:
    specs = [served(path, "total = 0"), served(path, "# adds")]
    program, adds = imported(driver, path, *specs), specs[1].line

    def script() -> None:
        seen = []
        for command in ("n", "n", "n", "n", "n", "c"):
            driver.prompt()
            seen.append(stopped_at(driver))
            driver.reply(command)
        assert seen == [adds - 2, adds - 1, adds, adds + 1, adds - 1, adds]
        assert driver.output_of("p step") == "2\n"
        ask(driver, clear=specs)
        driver.reply("c")

    finish = drive(driver, script)
    assert program.train(4) == 10
    finish()


def test_a_breakpoint_close_to_the_recursion_limit_is_skipped(driver: Driver, path: Path) -> None:
    def run(program: ModuleType) -> object:
        assert with_calls_left(30, lambda: program.doubled(4)) == 8
        assert len(driver.rank.broker.warned) == 1
        return program.doubled(4)

    assert stops(driver, path, "# decorated", run, "number=4") == 8
