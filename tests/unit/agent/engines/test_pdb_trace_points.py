"""Breakpoints with commands that print and go on: all output is in one log, and the rank is never told as stopped."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable

import pytest

from dbg_agent.rank.rank import Rank
from dbg_wire.messages import PromptState
from dbg_wire.records.ranks import RankState
from tests.unit.agent.pdb_driver import Driver, drive, interrupt

ROUNDS = 50


def loop(rank: Rank, wait: Callable[[int], object] = lambda value: None, rounds: int = ROUNDS) -> int:
    rank.stopping.stop(sys._getframe(), "breakpoint")
    number = 0
    for value in range(rounds):
        wait(value)
        number = value + 1000
    return number


TRACED = loop.__code__.co_firstlineno + 5


def set_trace_point(driver: Driver, *commands: str) -> None:
    driver.say(f"b {TRACED}")
    driver.say("commands")
    for command in commands:
        assert driver.say(command).state is PromptState.COMMANDS


def go(driver: Driver, rank_loop: Callable[[], int], script: Callable[[], None]) -> int:
    finish = drive(driver, script)
    result = rank_loop()
    driver.tell()  # a stop that was not told has no end that is told, so the script is woken here
    finish()
    return result


def test_all_values_are_shown_in_order_and_the_rank_runs_meanwhile(driver: Driver) -> None:
    states: list[RankState] = []

    def script() -> None:
        set_trace_point(driver, "silent", "p value", "p 'next'", "c")
        driver.say("c")
        driver.wait_for(lambda: driver.text.count("'next'\n") == ROUNDS + 1, "all values")

    result = go(driver, lambda: loop(driver.rank, lambda value: states.append(driver.rank.rank_report().state)), script)

    assert result == ROUNDS - 1 + 1000
    shown = driver.text.rpartition("(Pdb) c\n")[2]
    assert shown == "".join(f"{value}\n'next'\n" for value in range(ROUNDS))
    assert set(states) == {RankState.RUNNING}


def test_nobody_is_told_of_a_stop_while_commands_run(driver: Driver) -> None:
    told: list[object] = []

    def script() -> None:
        set_trace_point(driver, "note()", "c")
        driver.say("c")

    def note() -> None:
        report = driver.rank.rank_report()
        told.append((report.state, report.stop, report.session))

    builtins.note = note  # type: ignore[attr-defined]
    try:
        go(driver, lambda: loop(driver.rank, rounds=3), script)
    finally:
        del builtins.note  # type: ignore[attr-defined]
    assert told == [(RankState.RUNNING, None, None)] * 3


def test_commands_that_ask_are_a_stop_like_any_other(driver: Driver) -> None:
    def script() -> None:
        set_trace_point(driver, "silent", "p input('? ') + str(value)", "c")
        driver.say("c")
        for value in range(3):
            asked = driver.prompt()
            assert (asked.text, asked.state) == ("? ", PromptState.INPUT)
            report = driver.rank.rank_report()
            assert report.state is RankState.STOPPED
            assert report.session is not None
            assert report.session.number == driver.session == 1
            driver.say(f"{value}:")
        driver.wait_for(lambda: "'2:2'" in driver.text, "the last value")

    go(driver, lambda: loop(driver.rank, rounds=3), script)


def test_ctrl_c_ends_an_endless_command_and_leads_to_the_prompt(driver: Driver) -> None:
    def script() -> None:
        set_trace_point(driver, "silent", "p 'begins'", "p [0 for _ in __import__('itertools').count()]", "c")
        driver.say("c")
        driver.wait_for(lambda: driver.text.endswith("'begins'\n"), "the endless command")
        interrupt(driver)
        driver.say("cl")
        driver.say("y")
        driver.say("c")

    assert go(driver, lambda: loop(driver.rank, rounds=2), script) == 1001


def test_ctrl_c_in_a_flood_of_values_stops_the_program(driver: Driver) -> None:
    def script() -> None:
        set_trace_point(driver, "p value", "c")
        driver.say("c")
        driver.wait_for(lambda: driver.text.count("\n9\n"), "the first values")
        interrupt(driver)
        driver.say("cl")
        driver.say("y")
        driver.say("c")

    def bounded(value: int) -> None:
        if value > 20 and not driver.rank.breakpoints.lines:
            raise StopIteration

    with pytest.raises(StopIteration):
        go(driver, lambda: loop(driver.rank, bounded, rounds=100_000_000), script)


def test_ctrl_d_ends_the_list_and_is_none_of_its_commands(driver: Driver) -> None:
    def script() -> None:
        set_trace_point(driver, "p value", "EOF")
        assert driver.prompt().text == "(Pdb) "
        assert driver.rank.debuggers.last is not None
        commands = getattr(driver.rank.debuggers.last, "commands", {})
        assert list(commands.values()) == [["p value"]]
        driver.say("cl")
        driver.say("y")
        driver.say("c")

    go(driver, lambda: loop(driver.rank, rounds=2), script)


@pytest.mark.parametrize("word", ["q", "exit"])
@pytest.mark.parametrize("before", [(), ("silent", "p value")])
def test_a_quit_among_them_that_is_declined_leads_to_a_prompt_at_that_stop(
    driver: Driver, before: tuple[str, ...], word: str
) -> None:
    def script() -> None:
        set_trace_point(driver, *before, word)
        driver.say("c")
        for value in range(2):
            assert driver.prompt().state is PromptState.CONFIRM
            driver.say("s")
            asked = driver.prompt()
            assert (asked.text, asked.state) == ("(Pdb) ", PromptState.COMMAND)
            assert driver.rank.rank_report().state is RankState.STOPPED
            assert driver.output_of("p 'here', value") == f"('here', {value})\n"
            driver.say("c")

    assert go(driver, lambda: loop(driver.rank, rounds=2), script) == 1001


def test_a_quit_among_them_that_goes_on_asks_no_more(driver: Driver) -> None:
    def script() -> None:
        set_trace_point(driver, "p value", "q")
        driver.say("c")
        assert driver.prompt().state is PromptState.CONFIRM
        driver.say("c")

    assert go(driver, lambda: loop(driver.rank, rounds=2), script) == 1001
