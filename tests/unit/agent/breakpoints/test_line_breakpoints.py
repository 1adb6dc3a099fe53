"""Breakpoints that are set in a stopped rank: the same that pdb knows and a report counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from dbg_wire.records.inspection import BreakpointSpec, BreakpointState
from tests.conftest import Approved
from tests.unit.agent.breakpoints.asking import ask, line_of, loaded, spec, stopped_at
from tests.unit.agent.pdb_driver import Driver, drive

PROGRAM = '''\
import sys


def train(rank, steps):
    """Train."""
    rank.stopping.stop(sys._getframe(), "breakpoint")
    total = 0
    for step in range(steps):
        total += step  # adds

        total += call(
            step,
        )
    return total


def call(number):
    twice = 2 * number
    return twice
'''


@pytest.fixture
def program(tmp_path: Path) -> ModuleType:
    return loaded(tmp_path, PROGRAM)


def run(driver: Driver, program: ModuleType, steps: int, script: Callable[[], None]) -> object:
    """Run the program, which the script drives from its stop on; return its total."""
    finish = drive(driver, script)
    total = program.train(driver.rank, steps)
    finish()
    return total


def brief(states: tuple[BreakpointState, ...]) -> list[tuple[int, int, bool]]:
    return [(one.asked, one.line, one.is_set) for one in states]


def test_a_breakpoint_set_in_a_stopped_rank_is_listed_by_pdb(driver: Driver, program: ModuleType) -> None:
    seen: list[object] = []
    adds = line_of(program, "# adds")

    def script() -> None:
        driver.prompt()
        (state,) = ask(driver, spec(program, "# adds", "step == 2"))
        assert (state.asked, state.line, state.is_set, state.problem) == (adds, adds, True, "")
        seen.append(driver.output_of("b"))
        assert driver.rank.rank_report().breakpoints == 1
        driver.reply("c")
        seen.append(driver.output_of("p step"))
        (state,) = ask(driver)
        seen.append(state.hits_so_far)
        driver.reply("cl 1")
        driver.prompt()
        seen.append(ask(driver))
        driver.reply("c")

    assert run(driver, program, 4, script) == 18
    assert f"program.py:{adds}" in str(seen[0])
    assert "stop only if step == 2" in str(seen[0])
    assert seen[1:] == ["2\n", 1, ()]


def test_a_breakpoint_moves_to_the_next_line_with_code_or_into_the_function(
    approved: Approved, driver: Driver, program: ModuleType
) -> None:
    adds = line_of(program, "# adds")
    missing = BreakpointSpec(file="/no/such/file.py", line=3)

    def script() -> None:
        driver.prompt()
        states = ask(
            driver, spec(program, adds + 1), spec(program, "def call"), spec(program, 999), missing, spec(program, 1)
        )
        assert brief(states) == [
            (adds + 1, adds + 2, True),
            (line_of(program, "def call"), line_of(program, "twice = "), True),
            (1, 1, True),
            (999, 999, False),
            (3, 3, False),
        ]
        approved("\n".join(one.problem for one in states if not one.is_set))
        states = ask(driver, clear=[spec(program, adds + 1), spec(program, "twice ="), spec(program, 1)])
        assert states == ()
        driver.reply("c")

    assert run(driver, program, 2, script) == 3


@pytest.mark.parametrize(
    ("hits", "where"),
    [("== 2", [1]), ("3", [2, 3]), (">= 3", [2, 3]), ("% 2 == 0", [1, 3]), ("< 2", [0]), ("% 4", [3])],
)
def test_a_breakpoint_stops_at_the_requested_hits(
    driver: Driver, program: ModuleType, hits: str, where: list[int]
) -> None:
    def script() -> None:
        driver.prompt()
        ask(driver, spec(program, "# adds", hits=hits))
        for number in where:
            driver.reply("c")
            assert driver.output_of("p step") == f"{number}\n"
            assert stopped_at(driver) == line_of(program, "# adds")
        driver.reply("c")

    assert run(driver, program, 4, script) == 18


def test_a_breakpoint_is_kept_beside_one_of_pdb_which_the_answer_shows(
    approved: Approved, driver: Driver, program: ModuleType
) -> None:
    adds = line_of(program, "# adds")

    def script() -> None:
        driver.reply(f"b {adds}, step == 1")
        driver.prompt()
        (state,) = ask(driver)
        assert (state.line, state.condition, state.is_set) == (adds, "step == 1", True)
        driver.reply("disable 1")
        driver.prompt()
        (state,) = ask(driver)
        assert not state.is_set
        approved(state.problem)
        driver.reply("enable 1")
        (state,) = ask(driver, spec(program, adds, "step == 3"))
        assert state.condition == "step == 3"
        for number in (1, 3):
            driver.reply("c")
            assert driver.output_of("p step") == f"{number}\n"
        (state,) = ask(driver, clear=[spec(program, adds)])
        assert state.condition == "step == 1"
        assert "stop only if step == 1" in driver.output_of("b")
        assert ask(driver, clear=[spec(program, adds)]) == ()
        driver.reply("c")

    assert run(driver, program, 5, script) == 30


@pytest.mark.parametrize(
    "served",
    [
        {"condition": "1 +"},
        {"hits": "often"},
        {"hits": "% 0"},
        {"log": "a {b"},
        {"log": "{}"},
        {"condition": "\u20ac" * 800, "log": "\u20ac" * 800, "hits": "\u20ac" * 800},
    ],
    ids=["condition", "hits", "hits of 0", "log", "empty log", "too long together"],
)
def test_an_invalid_breakpoint_is_refused_with_the_reason(
    approved: Approved, driver: Driver, program: ModuleType, served: dict[str, str]
) -> None:
    def script() -> None:
        driver.prompt()
        (state,) = ask(driver, spec(program, "# adds", **served))
        assert not state.is_set
        # Python's own words for it differ from release to release.
        approved(state.problem.partition(" (")[0])
        driver.reply("c")

    assert run(driver, program, 2, script) == 3
