"""An exception at pdb's prompt is shown there and stays out of the program; a rank goes on also from an `input()`."""

from __future__ import annotations

import pytest

from dbg_wire.messages import Action, Ask, PromptState
from tests.unit.agent.pdb_driver import Driver, drive, train


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("import sys; sys.exit(3)", "*** SystemExit: 3\n"),
        ("raise GeneratorExit", "*** GeneratorExit\n"),
        ("p __import__('sys').exit(3)", "*** SystemExit: 3\n"),
        ("x =", "*** SyntaxError: invalid syntax\n"),
    ],
)
def test_what_a_command_raises_is_shown(driver: Driver, command: str, shown: str) -> None:
    def script() -> None:
        assert driver.output_of(command) == shown
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


@pytest.mark.parametrize("word", ["exit()", "quit()", "raise SystemExit"])
def test_leaving_the_interactive_interpreter_leaves_no_more_than_that(driver: Driver, word: str) -> None:
    def script() -> None:
        driver.say("interact")
        assert driver.prompt().state is PromptState.INTERACT
        driver.say(word)
        assert driver.prompt().text == "(Pdb) "
        assert driver.output_of("p total") == "1\n"
        driver.say("c")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()


@pytest.mark.parametrize("command", ["p input('? ')", "input('? ')", "whatis input('? ')"])
def test_going_on_also_ends_an_expression_that_asks(driver: Driver, command: str) -> None:
    def script() -> None:
        driver.say(command)
        assert driver.prompt().text == "? "
        driver.rank.from_broker.on_message(Ask(request=4, action=Action.CONTINUE))
        driver.wait_for(lambda: driver.heard("answer"), "the answer")

    finish = drive(driver, script)
    assert train(driver.rank) == 7
    finish()
