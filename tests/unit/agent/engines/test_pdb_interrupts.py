"""Ctrl-C in the rank's own pdb: while a command runs, and at each kind of prompt."""

from __future__ import annotations

import queue

import pytest

from dbg_agent.engines.pdb import RankPdb
from dbg_wire.messages import Interrupt, PromptState, Reply
from tests.unit.agent.pdb_driver import SECONDS, Driver, interrupt, play, train


@pytest.mark.parametrize("endless", ["while True: pass", "import time; time.sleep(3600)"])
def test_an_expression_that_never_ends_is_interrupted(driver: Driver, endless: str) -> None:
    def script() -> None:
        driver.say("print('begun')\n" + endless)
        driver.wait_for(
            lambda: "begun\n" in driver.text.rpartition("(Pdb)")[2].replace("print('begun')\n", ""), "begun"
        )
        driver.rank.from_broker.on_message(Interrupt(generation=1))
        driver.prompt()
        assert "KeyboardInterrupt" in driver.text
        driver.say("c")

    assert play(driver, script) == 7


def test_ctrl_c_between_a_reply_and_its_command_interrupts_the_command(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    precmd = RankPdb.precmd

    def interrupted(debugger: RankPdb, line: str) -> object:
        if line.startswith("import time"):
            driver.rank.from_broker.on_message(Interrupt(generation=1))
        return precmd(debugger, line)

    monkeypatch.setattr(RankPdb, "precmd", interrupted)

    def script() -> None:
        driver.say("import time; time.sleep(3600)")
        driver.prompt()
        assert "KeyboardInterrupt" in driver.text
        assert driver.output_of("6 * 7") == "42\n"
        driver.say("c")

    assert play(driver, script) == 7


def test_ctrl_c_right_behind_a_reply_interrupts_its_command(driver: Driver) -> None:
    def script() -> None:
        prompt = driver.prompt()
        driver.pass_over_prompt()
        on_message = driver.rank.from_broker.on_message
        on_message(Reply(prompt=prompt.number, generation=1, text="import time; time.sleep(3600)"))
        on_message(Interrupt(generation=1))
        driver.prompt()
        assert "KeyboardInterrupt" in driver.text
        assert driver.output_of("6 * 7") == "42\n"
        driver.say("c")

    assert play(driver, script) == 7


def test_ctrl_c_at_an_input_ends_the_command_that_asks(driver: Driver) -> None:
    def script() -> None:
        driver.say("name = input('name? ')")
        assert driver.prompt().state is PromptState.INPUT
        driver.pass_over_prompt()
        interrupt(driver)
        assert driver.prompt().text == "(Pdb) "
        assert "name? ^C\n*** KeyboardInterrupt\n" in driver.text
        assert "NameError" in driver.output_of("name")
        driver.say("c")

    assert play(driver, script) == 7


def test_ctrl_c_in_interact_drops_what_was_begun_and_goes_on(driver: Driver) -> None:
    def script() -> None:
        driver.say("interact")
        driver.say("for i in range(3):")
        driver.pass_over_prompt()
        interrupt(driver)
        again = driver.prompt()
        assert (again.text, again.state) == (">>> ", PromptState.INTERACT)
        assert "\nKeyboardInterrupt\n" in driver.text
        assert driver.output_of("6 * 7") == "42\n"
        driver.say("EOF")
        driver.say("c")

    assert play(driver, script) == 7


def test_ctrl_c_abandons_a_statement_that_is_not_complete(driver: Driver) -> None:
    def script() -> None:
        driver.say("for i in range(3):")
        driver.say("    total += 100")
        driver.pass_over_prompt()
        interrupt(driver)
        assert driver.prompt().text == "(Pdb) "
        assert "--KeyboardInterrupt--\n" in driver.text
        driver.say("c")

    assert play(driver, script) == 7


def test_ctrl_c_keeps_the_commands_that_a_breakpoint_had(driver: Driver) -> None:
    def script() -> None:
        driver.say(f"b {train.__code__.co_firstlineno + 4}")
        for line in ("commands", "p 'old'", "end", "commands", "p 'new'"):
            driver.say(line)
        driver.pass_over_prompt()
        interrupt(driver)
        assert driver.prompt().text == "(Pdb) "
        assert "command definition aborted, old commands restored" in driver.text
        driver.say("c")
        driver.prompt()
        assert driver.text.startswith("'old'\n")
        driver.say("clear")
        driver.say("y")
        driver.say("c")

    assert play(driver, script) == 7


def test_ctrl_c_at_the_question_how_to_leave_stays(driver: Driver) -> None:
    def script() -> None:
        driver.say("q")
        assert driver.prompt().state is PromptState.CONFIRM
        driver.pass_over_prompt()
        interrupt(driver)
        assert driver.prompt().text == "(Pdb) "
        assert "\nstaying; " in driver.text
        assert driver.output_of("p total") == "1\n"
        driver.say("c")

    assert play(driver, script) == 7


def test_ctrl_c_at_pdbs_own_prompt_does_nothing_then_or_later(driver: Driver) -> None:
    def script() -> None:
        prompt = driver.prompt()
        interrupt(driver)
        driver.rank.from_broker.on_message(Interrupt(generation=1))
        assert driver.prompt().number == prompt.number
        assert driver.output_of("p sum(range(100000))") == "4999950000\n"
        assert "KeyboardInterrupt" not in driver.text
        driver.say("c")

    assert play(driver, script) == 7


@pytest.mark.usefixtures("driver")
def test_ctrl_c_while_it_prints_takes_no_later_output_with_it() -> None:
    # `put` is written in C: unlike the driver's own reader, Ctrl-C can't interrupt it halfway.
    output: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    driver = Driver(output.put)

    def script() -> None:
        driver.say("interact")
        for _ in range(60):
            driver.prompt()
            while not output.empty():
                output.get()
            driver.say("exec('import sys\\nwhile True: sys.stdout.write(\"1\\\\n\")')")
            for _ in range(100):
                output.get(timeout=SECONDS)
            interrupt(driver)
            assert driver.prompt().text == ">>> "
        driver.say("6 * 7")
        driver.prompt()
        assert "42" in driver.rank.debuggers.console.last_lines(2)
        driver.say("EOF")
        driver.say("c")

    assert play(driver, script) == 7
