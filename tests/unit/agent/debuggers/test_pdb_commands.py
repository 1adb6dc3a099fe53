"""Commands of the rank's pdb that fail, that are interrupted, that a breakpoint has, and those for a set of ranks."""

from __future__ import annotations

import builtins
import linecache
import pdb
import queue
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dbg_agent.questions import passing_pdb
from dbg_agent.rank.rank import Rank
from dbg_agent.stop.inbox import MOVES
from dbg_wire.messages import Action, Ask, Interrupt, PromptState, Reply
from dbg_wire.records.ranks import RankState
from tests.unit.agent.pdb_driver import SECONDS, Driver, drive, interrupt, play

ALL = sorted(name.removeprefix("do_") for name in dir(pdb.Pdb) if name.startswith("do_"))


def clear(driver: Driver) -> None:
    """Go on with no breakpoint left."""
    driver.reply("cl")
    driver.reply("y")
    driver.reply("c")


# ------------------------------------------------------------------ at a frame whose values and source fail

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


def hostile(error: type[BaseException]) -> object:
    """Return a value of which every operation fails."""

    def fails(*_arguments: object) -> None:
        raise error("on purpose")

    names = ("__repr__", "__getattribute__", "__eq__", "__call__")
    return type("Hostile", (), {**dict.fromkeys(names, fails), "__hash__": None})()


def run_edited(rank: Rank, directory: Path, error: type[BaseException]) -> int:
    """Stop in a file that was edited meanwhile, with a hostile argument."""
    file = directory / "edited_meanwhile.py"
    file.write_text(SOURCE, encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "edited_meanwhile"}
    exec(compile(SOURCE, str(file), "exec"), namespace)  # noqa: S102 - a program whose file changes
    file.write_text(UNREADABLE, encoding="utf-8")
    linecache.clearcache()
    step = namespace["step"]
    assert callable(step)
    result = step(rank, hostile(error), sys._getframe)
    assert isinstance(result, int)
    return result


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_every_command_returns_to_the_prompt(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    monkeypatch.chdir(tmp_path)

    def script() -> None:
        stop = driver.rank.stops.number
        for command in ALL:
            if command in MOVING | ASKING:
                continue
            for words in ("", " argument", " step", " 5", " no such thing("):
                driver.reply(command + words)
                while (prompt := driver.prompt()).state is not PromptState.COMMAND:
                    # This ends a list of commands or an interpreter, and answers a question by staying.
                    driver.reply("end" if prompt.state is PromptState.COMMANDS else "EOF")
                if prompt.text != "(Pdb) ":
                    driver.reply("q")
                assert driver.prompt().text == "(Pdb) ", command + words
                assert driver.rank.stops.number == stop, command + words
        clear(driver)

    finish = drive(driver, script)
    assert run_edited(driver.rank, tmp_path, error) in (3, 4)
    finish()


# ------------------------------------------------------------------------------------------------------------- Ctrl-C

SLEEPS = "import time; time.sleep(3600)"


def sees_interrupt(driver: Driver) -> None:
    driver.prompt()
    assert "KeyboardInterrupt" in driver.text
    assert driver.output_of("6 * 7") == "42\n"
    driver.reply("c")


@pytest.mark.parametrize("endless", ["while True: pass", SLEEPS])
def test_an_expression_that_never_ends_is_interrupted(driver: Driver, endless: str) -> None:
    def script() -> None:
        driver.reply("print('be' + 'gun')\n" + endless)
        driver.wait_for(lambda: "begun\n" in driver.text, "begun")
        driver.rank.from_broker.on_message(Interrupt(generation=1))
        sees_interrupt(driver)

    assert play(driver, script) == 7


def test_ctrl_c_right_after_a_reply_interrupts_its_command(driver: Driver) -> None:
    def script() -> None:
        prompt = driver.prompt()
        driver.pass_over_prompt()
        driver.rank.from_broker.on_message(Reply(prompt=prompt.number, generation=1, text=SLEEPS))
        driver.rank.from_broker.on_message(Interrupt(generation=1))
        sees_interrupt(driver)

    assert play(driver, script) == 7


def test_ctrl_c_at_the_pdb_prompt_has_no_effect_then_or_later(driver: Driver) -> None:
    def script() -> None:
        prompt = driver.prompt()
        interrupt(driver)
        driver.rank.from_broker.on_message(Interrupt(generation=1))
        assert driver.prompt().number == prompt.number
        assert driver.output_of("p sum(range(100000))") == "4999950000\n"
        assert "KeyboardInterrupt" not in driver.text
        driver.reply("c")

    assert play(driver, script) == 7


@pytest.mark.usefixtures("driver")
def test_ctrl_c_while_a_command_prints_loses_no_later_output() -> None:
    # `put` is written in C: unlike the driver's own reader, Ctrl-C can't interrupt it halfway.
    output: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    driver = Driver(output.put)

    def script() -> None:
        driver.reply("interact")
        for _ in range(30):
            driver.prompt()
            while not output.empty():
                output.get()
            driver.reply("exec('import sys\\nwhile True: sys.stdout.write(\"1\\\\n\")')")
            for _ in range(100):
                output.get(timeout=SECONDS)
            interrupt(driver)
            assert driver.prompt().text == ">>> "
        driver.reply("6 * 7")
        driver.prompt()
        assert "42" in driver.rank.debuggers.console.last_lines(2)
        driver.reply("EOF")
        driver.reply("c")

    assert play(driver, script) == 7
    assert not hasattr(sys, "ps1")


# ------------------------------------------------------- breakpoints with commands that print and go on

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
    driver.reply(f"b {TRACED}")
    driver.reply("commands")
    for command in commands:
        assert driver.reply(command).state is PromptState.COMMANDS
    driver.reply("c")


def go(
    driver: Driver, script: Callable[[], None], rounds: int = 2, wait: Callable[[int], object] = lambda value: None
) -> None:
    finish = drive(driver, script)
    assert loop(driver.rank, wait, rounds) == rounds - 1 + 1000
    driver.notify()  # an unreported stop has no reported end, so the script is woken here
    finish()


def test_all_values_are_shown_in_order_while_the_rank_runs(driver: Driver) -> None:
    states: list[RankState] = []

    def script() -> None:
        set_trace_point(driver, "silent", "p value", "p 'next'", "c")
        driver.wait_for(lambda: driver.text.count("'next'\n") == ROUNDS + 1, "all values")

    go(driver, script, ROUNDS, lambda value: states.append(driver.rank.rank_report().state))
    shown = driver.text.rpartition("(Pdb) c\n")[2]
    assert shown == "".join(f"{value}\n'next'\n" for value in range(ROUNDS))
    assert set(states) == {RankState.RUNNING}


def test_no_stop_is_reported_while_breakpoint_commands_run(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []

    def note() -> None:
        report = driver.rank.rank_report()
        reported.append((report.state, report.stop, report.session))

    monkeypatch.setattr(builtins, "note", note, raising=False)
    go(driver, lambda: set_trace_point(driver, "note()", "c"), 3)
    assert reported == [(RankState.RUNNING, None, None)] * 3


def test_breakpoint_commands_that_ask_for_input_are_a_normal_stop(driver: Driver) -> None:
    def script() -> None:
        set_trace_point(driver, "silent", "p input('? ') + str(value)", "c")
        for value in range(3):
            asked = driver.prompt()
            assert (asked.text, asked.state) == ("? ", PromptState.INPUT)
            report = driver.rank.rank_report()
            assert report.state is RankState.STOPPED
            assert report.session is not None
            assert report.session.number == driver.session == 1
            driver.reply(f"{value}:")
        driver.wait_for(lambda: "'2:2'" in driver.text, "the last value")

    go(driver, script, 3)


def test_ctrl_c_ends_an_endless_command_and_opens_the_prompt(driver: Driver) -> None:
    def script() -> None:
        set_trace_point(driver, "silent", "p 'begins'", "p [0 for _ in __import__('itertools').count()]", "c")
        driver.wait_for(lambda: driver.text.endswith("'begins'\n"), "the endless command")
        interrupt(driver)
        clear(driver)

    go(driver, script)


@pytest.mark.parametrize("commands", [("q",), ("silent", "p value", "exit")], ids=" ".join)
def test_a_declined_quit_in_breakpoint_commands_opens_a_prompt_at_that_stop(
    driver: Driver, commands: tuple[str, ...]
) -> None:
    def script() -> None:
        set_trace_point(driver, *commands)
        for value in range(2):
            assert driver.prompt().state is PromptState.CONFIRM
            driver.reply("s")
            asked = driver.prompt()
            assert (asked.text, asked.state) == ("(Pdb) ", PromptState.COMMAND)
            assert driver.rank.rank_report().state is RankState.STOPPED
            assert driver.output_of("p 'here', value") == f"('here', {value})\n"
            # The end of the lines goes on and asks no more.
            if value:
                driver.reply("q")
            driver.reply("c")

    go(driver, script)


# ------------------------------------------------------------------------------------------------- for a set of ranks

TAKES_WORDS = sys.version_info < (3, 13)
"""Up to 3.12 pdb ignores words behind `n` and `s`; from 3.13 on it refuses them."""


def train(rank: Rank) -> int:
    total = 1
    rank.stopping.stop(sys._getframe(), "breakpoint")
    total += 1
    total += 2
    total += 3
    total += 4
    total += 5
    return total


FIRST = train.__code__.co_firstlineno


class Asking:
    """A terminal that asks the rank as one of a set."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._request = 0

    def command(self, text: str) -> tuple[str, str]:
        """Have a command run; return kind and text of the answer."""
        self._request += 1
        request = self._request
        ask = Ask(request=request, action=Action.COMMAND, text=text, seconds=10.0)
        self._driver.rank.from_broker.on_message(ask)

        def answers() -> list[dict[str, object]]:
            return [answer for answer in self._driver.heard("answer") if answer["request"] == request]

        self._driver.wait_for(answers, f"an answer to {text}")
        return str(answers()[0]["kind"]), str(answers()[0]["text"])

    @property
    def line(self) -> int:
        stop = self._driver.rank.rank_report().stop
        return stop.where.line if stop is not None else 0

    def run(self, script: Callable[[], None]) -> int:
        """Run a script at a stop at which pdb is open already."""

        def at_prompt() -> None:
            self._driver.prompt()
            script()
            self._driver.end_stop()

        finish = drive(self._driver, at_prompt)
        result = train(self._driver.rank)
        finish()
        return result


@pytest.fixture
def asking(driver: Driver) -> Asking:
    return Asking(driver)


REFUSED = set(ALL) - passing_pdb.RUN - set(MOVES) | passing_pdb.ASK_WITHOUT_NUMBERS


@pytest.mark.parametrize("command", ALL)
def test_a_command_moves_or_stays_or_is_refused_by_name(asking: Asking, command: str) -> None:
    def script() -> None:
        before = asking.line
        kind, text = asking.command(command)
        if command in REFUSED:
            assert kind == "error"
            assert text.startswith(f"`{command}` ")
        if command in MOVES:
            assert kind == "value"
            assert text == "running" or f":{asking.line} " in text
            assert asking.line != before
        else:
            assert asking.line == before
            assert asking.command("n")[0] == "value"
            assert asking.line == before + 1

    assert asking.run(script) == 16


FAILS, WORKS = "error", "value"

LINES: list[tuple[str, str, int, str]] = [
    # A command, whether it is refused, the lines that it moves on, and a part of the answer.
    ("until {next}", WORKS, 1, ":{next} train"),
    ("unt {after}", WORKS, 2, ":{after} train"),
    ("unt x", FAILS, 0, ""),
    ("n 1", WORKS if TAKES_WORDS else FAILS, int(TAKES_WORDS), ""),
    ("s 1", WORKS if TAKES_WORDS else FAILS, int(TAKES_WORDS), ""),
    ("total = 8;;c", FAILS, 0, ""),
    ("", FAILS, 0, ""),
]


@pytest.mark.parametrize(("command", "kind", "lines", "shown"), LINES)
def test_a_command_runs_completely_or_is_refused_without_effect(
    asking: Asking, command: str, kind: str, lines: int, shown: str
) -> None:
    def script() -> None:
        before, total = asking.line, asking.command("p total")
        places = {"next": before + 1, "after": before + 2}
        answer = asking.command(command.format(**places))
        assert answer[0] == kind
        assert shown.format(**places) in answer[1]
        assert asking.line == before + lines
        if not lines:
            assert asking.command("p total") == total

    assert asking.run(script) == 16


def add(stop: Callable[[], None]) -> int:
    total = 1
    stop()
    total += 1
    total += 2
    total += 3
    return total


def test_a_condition_sent_to_several_ranks_uses_the_number_of_each(driver: Driver, asking: Asking) -> None:
    first, number = add.__code__.co_firstlineno, driver.rank.number

    def script() -> None:
        driver.prompt()
        for line, condition in ((first + 4, f"rank == {number + 1}"), (first + 5, f"rank == {number}")):
            assert asking.command(f"b {line}, {condition}")[0] == "value"
        assert asking.command("c")[0] == "value"
        driver.wait_for(lambda: asking.line == first + 5, "the breakpoint")
        driver.prompt()
        for breakpoint_number in ("1", "2"):
            assert asking.command(f"cl {breakpoint_number}")[0] == "value"
        driver.end_stop()

    finish = drive(driver, script)
    assert add(lambda: driver.rank.stopping.stop(sys._getframe(1), "breakpoint")) == 7
    finish()


@pytest.mark.parametrize("command", ["c", "continue"])
def test_continue_runs_to_the_next_breakpoint(driver: Driver, asking: Asking, command: str) -> None:
    def script() -> None:
        assert asking.command(f"b {FIRST + 6}")[0] == "value"
        assert asking.command(command)[0] == "value"
        driver.wait_for(lambda: asking.line == FIRST + 6, "the breakpoint")
        driver.prompt()
        assert asking.command("cl 1")[0] == "value"
        assert asking.command("n")[0] == "value"
        assert asking.line == FIRST + 7

    assert asking.run(script) == 16
