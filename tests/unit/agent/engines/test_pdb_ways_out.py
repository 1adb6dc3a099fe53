"""No way out of pdb's consoles ends the rank unasked."""

from __future__ import annotations

import sys

import pytest

from tests.unit.agent.pdb_driver import Driver, play


@pytest.mark.parametrize("typed", ["!raise SystemExit(3)", "p exit()", "__import__('sys').exit(3)"])
def test_what_ends_a_process_is_shown_and_the_prompt_comes_back(driver: Driver, typed: str) -> None:
    def script() -> None:
        assert "SystemExit" in driver.output_of(typed)
        assert driver.output_of("p total") == "1\n"
        driver.say("c")

    assert play(driver, script) == 7


@pytest.mark.parametrize("typed", ["debug exit()", "debug __import__('sys').exit(3)"])
def test_a_recursive_debugger_ends_and_nothing_else(driver: Driver, typed: str) -> None:
    def script() -> None:
        driver.say(typed)
        assert driver.prompt().text == "((Pdb)) "
        driver.say("c")
        assert driver.prompt().text == "(Pdb) "
        assert "SystemExit" in driver.text
        assert driver.output_of("p total") == "1\n"
        driver.say("c")

    assert play(driver, script) == 7
    assert sys.gettrace() is None


def test_exit_in_the_interpreter_ends_that_alone(driver: Driver) -> None:
    def script() -> None:
        driver.say("interact")
        driver.say("exit()")
        assert driver.prompt().text == "(Pdb) "
        driver.say("c")

    assert play(driver, script) == 7


@pytest.mark.parametrize("typed", ["exit()", "quit()", "exit", "q", "EOF"])
def test_the_commands_ask(driver: Driver, typed: str) -> None:
    def script() -> None:
        driver.say(typed)
        assert "continue, kill this rank" in driver.prompt().text
        driver.say("s")
        assert driver.output_of("p total") == "1\n"
        driver.say("c")

    assert play(driver, script) == 7
