"""What a rank tells of the breakpoints that people set in its pdb; ``test_pudb.py`` has the tests for PuDB."""

from __future__ import annotations

from collections.abc import Callable

from dbg_wire.messages import Action, Ask
from tests.unit.agent import pdb_driver
from tests.unit.agent.pdb_driver import Driver, drive, play, train

FILE = pdb_driver.__file__
SECOND = train.__code__.co_firstlineno + 4
"""Line of ``total += 2``."""


def told(driver: Driver) -> int:
    """Return how many breakpoints a report counts, once the next prompt stands."""
    driver.prompt()
    return driver.rank.rank_report().breakpoints


def test_each_command_of_pdb_is_told_with_the_next_prompt(driver: Driver) -> None:
    seen: list[int] = []

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
    assert seen == [1, 2, 2, 2, 2, 2, 2, 2, 0]


def saying(driver: Driver, text: str) -> Callable[[], None]:
    def script() -> None:
        driver.say(text)

    return script


def test_what_is_set_or_cleared_in_the_line_that_goes_on_is_told_with_the_end_of_the_stop(driver: Driver) -> None:
    assert play(driver, saying(driver, f"b {SECOND + 1}, total > 99;;c")) == 7
    assert driver.rank.rank_report().breakpoints == 1
    assert play(driver, saying(driver, "cl 1;;c")) == 7
    assert driver.rank.rank_report().breakpoints == 0


def test_letting_the_rank_run_past_its_breakpoints_clears_none_until_the_next_debugger_is_open(driver: Driver) -> None:
    def script() -> None:
        driver.say(f"b {SECOND}")
        driver.say("q")
        driver.say("c")

    assert play(driver, script) == 7
    assert driver.rank.rank_report().breakpoints == 0

    def again() -> None:
        assert told(driver) == 0
        driver.say("c")

    assert play(driver, again) == 7


def test_a_command_to_a_rank_without_an_open_debugger_is_told(driver: Driver) -> None:
    def ask(action: Action, text: str = "") -> None:
        driver.rank.from_broker.on_message(Ask(request=1, action=action, text=text))

    def script() -> None:
        ask(Action.COMMAND, f"b {FILE}:{SECOND + 1}, total > 99")
        driver.wait_for(lambda: driver.rank.rank_report().breakpoints, "the breakpoint")
        ask(Action.CONTINUE)

    finish = drive(driver, script, look=False)
    assert train(driver.rank) == 7
    finish()
    assert driver.rank.rank_report().breakpoints == 1
