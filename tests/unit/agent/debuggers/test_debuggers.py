"""What a rank reports of the breakpoints that people set in its pdb; ``test_pudb.py`` has the tests for PuDB."""

from __future__ import annotations

from collections.abc import Callable

from dbg_wire.messages import Action, Ask
from tests.unit.agent import pdb_driver
from tests.unit.agent.pdb_driver import Driver, drive, play, train

FILE = pdb_driver.__file__
SECOND = train.__code__.co_firstlineno + 4
"""Line of ``total += 2``."""


def reported_count(driver: Driver) -> int:
    """Return how many breakpoints a report counts, once the next prompt is open."""
    driver.prompt()
    return driver.rank.rank_report().breakpoints


def test_pdb_breakpoint_counts_are_reported_with_the_next_prompt(driver: Driver) -> None:
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
            driver.reply(command)
            if command == "clear":
                driver.reply("y")
            seen.append(reported_count(driver))
        driver.reply("c")

    assert play(driver, script) == 7
    assert seen == [1, 2, 2, 2, 2, 2, 2, 2, 0]


def replying(driver: Driver, text: str) -> Callable[[], None]:
    def script() -> None:
        driver.reply(text)

    return script


def test_breakpoints_changed_by_the_resuming_line_are_reported_at_the_end_of_the_stop(driver: Driver) -> None:
    assert play(driver, replying(driver, f"b {SECOND + 1}, total > 99;;c")) == 7
    assert driver.rank.rank_report().breakpoints == 1
    assert play(driver, replying(driver, "cl 1;;c")) == 7
    assert driver.rank.rank_report().breakpoints == 0


def test_continuing_from_quit_clears_the_breakpoints(driver: Driver) -> None:
    def script() -> None:
        driver.reply(f"b {SECOND}")
        driver.reply("q")
        driver.reply("c")

    assert play(driver, script) == 7
    assert driver.rank.rank_report().breakpoints == 0

    def again() -> None:
        assert reported_count(driver) == 0
        driver.reply("c")

    assert play(driver, again) == 7


def test_a_breakpoint_set_without_an_open_debugger_is_reported(driver: Driver) -> None:
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
