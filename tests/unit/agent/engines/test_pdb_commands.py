"""Completion of expressions and statements at pdb's prompt, beside that of commands."""

from __future__ import annotations

import builtins
import linecache
import pdb
import queue
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dbg_agent.engines.pdb import RankPdb
from dbg_agent.rank.rank import Rank
from dbg_wire.messages import Action, Ask, Complete, Interrupt, PromptState, Reply
from dbg_wire.records.ranks import RankState
from tests.unit.agent.pdb_driver import SECONDS, Driver, drive, interrupt, play, train


class Optimizer:
    momentum = 0.9
    moments = 2


def train_pdb_completion(rank: Rank) -> float:
    optimizer = Optimizer()
    next_batch = 1
    rank.stopping.stop(sys._getframe(), "breakpoint")
    next_batch += 1
    return optimizer.momentum + next_batch


@pytest.mark.parametrize(
    ("line", "begin", "matches"),
    [
        ("optimizer.mom", 0, ["optimizer.moments", "optimizer.momentum"]),
        ("opti", 0, ["optimizer"]),
        ("nex", 0, ["next", "next_batch"]),
        ("!optimizer.mome", 0, ["!optimizer.moments", "!optimizer.momentum"]),
        ("x = optimizer.mom", 4, ["optimizer.moments", "optimizer.momentum"]),
        ("len(optimizer.mom", 4, ["optimizer.moments", "optimizer.momentum"]),
        ("for i in next", 9, ["next_batch"]),
        ("p optimizer.mom", 2, ["optimizer.moments", "optimizer.momentum"]),
        ("unti", 0, ["until"]),
        ("nobody.no", 0, []),
    ],
)
def test_expressions_are_completed_wherever_they_begin(
    driver: Driver, line: str, begin: int, matches: list[str]
) -> None:
    def script() -> None:
        number = driver.prompt().number
        asked = Complete(request=1, prompt=number, generation=1, line=line, begin=begin, end=len(line))
        driver.rank.from_broker.on_message(asked)
        driver.wait_for(lambda: driver.heard("completions"), "completions")
        driver.say("c")

    finish = drive(driver, script)
    train_pdb_completion(driver.rank)
    finish()
    assert driver.heard("completions")[0]["matches"] == matches


def test_an_empty_line_offers_commands_alone(driver: Driver) -> None:
    def script() -> None:
        number = driver.prompt().number
        driver.rank.from_broker.on_message(Complete(request=1, prompt=number, generation=1, line="", begin=0, end=0))
        driver.wait_for(lambda: driver.heard("completions"), "completions")
        driver.say("c")

    finish = drive(driver, script)
    train_pdb_completion(driver.rank)
    finish()
    found = driver.heard("completions")[0]["matches"]
    assert "next" in str(found)
    assert "next_batch" not in str(found)


SOURCE = """\
def step(rank, argument, frame_of):
    total = 1
    rank.stopping.stop(frame_of(), "breakpoint")
    total += 1
    total += 2
    return total
"""

UNREADABLE = "def step(rank, argument, frame_of):\n    '''\n    total = (\n  bad\n \t x\n"
"""A source that can be neither tokenized nor parsed."""

MOVING = {"c", "cont", "continue", "n", "next", "s", "step", "r", "return", "unt", "until"}
ASKING = {"q", "quit", "exit", "EOF"}
COMMANDS = sorted(name.removeprefix("do_") for name in dir(pdb.Pdb) if name.startswith("do_"))


class Hostile:
    """A value of which every operation fails."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, error: type[BaseException]) -> None:
        object.__setattr__(self, "error", error)

    def __repr__(self) -> str:
        raise object.__getattribute__(self, "error")("no repr")

    def __getattribute__(self, name: str) -> object:
        raise object.__getattribute__(self, "error")("no attributes")

    def __eq__(self, other: object) -> bool:
        raise object.__getattribute__(self, "error")("no comparison")

    def __call__(self) -> None:
        raise object.__getattribute__(self, "error")("no call")


def leave(driver: Driver) -> None:
    """Go on with no breakpoint left."""
    driver.say("cl")
    driver.say("y")
    driver.say("c")


def run(rank: Rank, directory: Path, error: type[BaseException]) -> int:
    file = directory / "edited_meanwhile.py"
    file.write_text(SOURCE, encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "edited_meanwhile"}
    exec(compile(SOURCE, str(file), "exec"), namespace)  # noqa: S102 - a program whose file changes
    file.write_text(UNREADABLE, encoding="utf-8")
    linecache.clearcache()
    step = namespace["step"]
    assert callable(step)
    result = step(rank, Hostile(error), sys._getframe)
    assert isinstance(result, int)
    return result


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_every_command_leads_back_to_the_prompt(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """The frame's argument raises at its repr, and its file can't be tokenized any more."""
    monkeypatch.chdir(tmp_path)

    def script() -> None:
        stop = driver.rank.stops.number
        for command in COMMANDS:
            if command in MOVING | ASKING:
                continue
            for words in ("", " argument", " step", " 5", " no such thing("):
                driver.say(command + words)
                while (prompt := driver.prompt()).state is not PromptState.COMMAND:
                    # This ends a list of commands or an interpreter, and answers a question by staying.
                    driver.say("end" if prompt.state is PromptState.COMMANDS else "EOF")
                if prompt.text != "(Pdb) ":
                    driver.say("q")
                assert driver.prompt().text == "(Pdb) ", command + words
                assert driver.rank.stops.number == stop, command + words
        leave(driver)

    finish = drive(driver, script)
    assert run(driver.rank, tmp_path, error) in (3, 4)
    finish()


@pytest.mark.parametrize("command", ["n", "s", "r", "unt"])
def test_moving_shows_a_failing_display_and_stops(driver: Driver, tmp_path: Path, command: str) -> None:
    def script() -> None:
        driver.say("display argument")
        driver.say("display total")
        shown = driver.output_of(command)
        assert "step()" in shown or "--Return--" in shown
        leave(driver)

    finish = drive(driver, script)
    assert run(driver.rank, tmp_path, RuntimeError) == 4
    finish()


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
