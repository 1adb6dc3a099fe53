"""What a rank tells of the breakpoints that people set in its pdb; ``test_pudb.py`` has the tests for PuDB."""

from __future__ import annotations

import bdb
from collections.abc import Callable

import pytest

from dbg_agent.rank.rank import Rank
from dbg_wire.limits import MAX_BREAKPOINTS, MAX_CONDITION
from dbg_wire.messages import Action, Ask
from dbg_wire.records.ranks import Breakpoint
from tests.unit.agent import pdb_driver
from tests.unit.agent.pdb_driver import Driver, drive, play, train

FILE = pdb_driver.__file__
SECOND = train.__code__.co_firstlineno + 4
"""Line of ``total += 2``."""


def at(line: int, condition: str | None = None) -> Breakpoint:
    return Breakpoint(file=FILE, line=line, condition=condition)


def told(driver: Driver) -> tuple[Breakpoint, ...]:
    """Return what a report says now, once the next prompt stands."""
    driver.prompt()
    return driver.rank.rank_report().user_breakpoints


def test_each_command_of_pdb_is_told_with_the_next_prompt(driver: Driver) -> None:
    seen: list[tuple[Breakpoint, ...]] = []

    def script() -> None:
        for command in (
            f"b {SECOND}",
            f"b {SECOND + 1}, total  >  99 ",
            f"tbreak {SECOND + 1}",
            "condition 1 total == 2",
            "disable 1",
            "enable 1",
            "condition 1",
            "cl 2",
            "clear",
        ):
            driver.say(command)
            if command == "clear":
                driver.say("y")
            seen.append(told(driver))
        driver.say("c")

    assert play(driver, script) == 7
    first, second = at(SECOND), at(SECOND + 1, "total  >  99")
    when_two = at(SECOND, "total == 2")
    assert seen == [
        (first,),
        (first, second),
        (first, second),
        (when_two, second),
        (second,),
        (when_two, second),
        (first, second),
        (first,),
        (),
    ]


def saying(driver: Driver, text: str) -> Callable[[], None]:
    def script() -> None:
        driver.say(text)

    return script


def test_what_is_set_or_cleared_in_the_line_that_goes_on_is_told_with_the_end_of_the_stop(driver: Driver) -> None:
    assert play(driver, saying(driver, f"b {SECOND + 1}, total > 99;;c")) == 7
    assert driver.rank.rank_report().user_breakpoints == (at(SECOND + 1, "total > 99"),)
    assert driver.rank.rank_report().breakpoints == 1
    assert play(driver, saying(driver, "cl 1;;c")) == 7
    assert driver.rank.rank_report().user_breakpoints == ()


def test_letting_the_rank_run_past_its_breakpoints_clears_none_until_the_next_debugger_is_open(driver: Driver) -> None:
    def script() -> None:
        driver.say(f"b {SECOND}")
        driver.say("q")
        driver.say("c")

    assert play(driver, script) == 7
    report = driver.rank.rank_report()
    assert (report.breakpoints, report.user_breakpoints) == (0, (at(SECOND),))

    def again() -> None:
        assert told(driver) == ()
        driver.say("c")

    assert play(driver, again) == 7


def test_a_command_to_a_rank_without_an_open_debugger_is_told(driver: Driver) -> None:
    def ask(action: Action, text: str = "") -> None:
        driver.rank.from_broker.on_message(Ask(request=1, action=action, text=text))

    def script() -> None:
        ask(Action.COMMAND, f"b {FILE}:{SECOND + 1}, total > 99")
        driver.wait_for(lambda: driver.rank.rank_report().user_breakpoints, "the breakpoint")
        ask(Action.CONTINUE)

    finish = drive(driver, script, look=False)
    assert train(driver.rank) == 7
    finish()
    assert driver.rank.rank_report().user_breakpoints == (at(SECOND + 1, "total > 99"),)


@pytest.fixture
def rank(driver: Driver) -> Rank:
    """Return a rank whose program has set a breakpoint in a debugger of its own."""
    bdb.Breakpoint(FILE, 1)
    return driver.rank


def put(rank: Rank, file: str, line: int, condition: str | None = None) -> None:
    bdb.Breakpoint(file, line, cond=condition)
    rank.breakpoints.lines.setdefault(file, []).append(line)


@pytest.mark.parametrize(
    ("file", "condition"),
    [
        ("<string>", None),
        ("/" + "x" * 4096, None),
        ("/home/me/\udce9.py", None),
        (FILE, "x" * (MAX_CONDITION + 1)),
        (FILE, "name == '\ud800'"),
    ],
    ids=["no file", "long path", "path that is no text", "long condition", "condition that is no text"],
)
def test_what_can_not_be_sent_is_left_out_and_the_rest_is_told(rank: Rank, file: str, condition: str | None) -> None:
    put(rank, file, 7, condition)
    put(rank, FILE, 8, " ")
    for line in (9, 9, *range(10, 10 + MAX_BREAKPOINTS)):
        put(rank, FILE, line)
    rank.breakpoints.update()

    # One set twice is one, and the first hundred are told.
    assert rank.rank_report().user_breakpoints == tuple(at(line) for line in range(8, 8 + MAX_BREAKPOINTS))
