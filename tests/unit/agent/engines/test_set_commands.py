"""Every command of pdb for a set of ranks: it does what it does in a session, or is refused with nothing done."""

from __future__ import annotations

import pdb
import sys
from collections.abc import Callable

import pytest

from dbg_agent.engines import passing_pdb
from dbg_agent.rank.rank import Rank
from dbg_agent.stop.inbox import MOVES
from dbg_wire.messages import Action, Ask
from tests.unit.agent.pdb_driver import Driver, drive

COMMANDS = sorted(name.removeprefix("do_") for name in dir(pdb.Pdb) if name.startswith("do_"))
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
LAST = FIRST + 8


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


@pytest.fixture
def asking(driver: Driver) -> Asking:
    return Asking(driver)


def run(driver: Driver, script: Callable[[], None]) -> int:
    """Run a script at a stop at which pdb is open already."""

    def at_prompt() -> None:
        driver.prompt()
        script()
        driver.let_go()

    finish = drive(driver, at_prompt)
    result = train(driver.rank)
    finish()
    return result


def test_every_command_of_this_pdb_has_its_place() -> None:
    places = [passing_pdb.RUN, MOVES, passing_pdb.SELECTIONS, passing_pdb.TERMINAL]
    for command in COMMANDS:
        assert sum(command in place for place in places) == 1, command


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_moves_or_stays_or_is_refused_by_name(driver: Driver, asking: Asking, command: str) -> None:
    def script() -> None:
        before = asking.line
        kind, text = asking.command(command)
        if command in passing_pdb.TERMINAL:
            assert (kind, text) == ("error", f"`{command}` is for a terminal; attach to the rank")
        elif command in passing_pdb.SELECTIONS or command in passing_pdb.ASK_WITHOUT_NUMBERS:
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

    assert run(driver, script) == 16


@pytest.mark.parametrize("command", ["p total;;{}", "{} 1", "p 1 ;; p 2 ;; {}"])
@pytest.mark.parametrize("move", ["n", "next", "s", "step", "unt", "until"])
def test_moves_with_words_and_behind_other_commands_move(
    driver: Driver, asking: Asking, command: str, move: str
) -> None:
    def script() -> None:
        before = asking.line
        kind, text = asking.command(command.format(move))
        if command != "{} 1":
            assert (kind, asking.line) == ("value", before + 1)
            assert text.split("\n")[-1].split(":")[-1] == f"{before + 1} train"
            assert text.split("\n")[0] in ("1", "2")
        elif not TAKES_WORDS or move in ("unt", "until"):
            assert kind == "error"
            assert asking.line == before
        else:
            assert (kind, asking.line) == ("value", before + 1)

    assert run(driver, script) == 16


def test_until_a_line_leads_there(driver: Driver, asking: Asking) -> None:
    def script() -> None:
        assert asking.command(f"unt {FIRST + 6}")[1].endswith(f":{FIRST + 6} train")
        assert asking.line == FIRST + 6
        assert asking.command("unt x")[0] == "error"
        assert asking.line == FIRST + 6

    assert run(driver, script) == 16


@pytest.mark.parametrize("command", ["p 1;;c", "c", "continue"])
def test_going_on_goes_on_to_a_breakpoint(driver: Driver, asking: Asking, command: str) -> None:
    def script() -> None:
        assert asking.command(f"b {FIRST + 6}")[0] == "value"
        assert asking.command(command)[0] == "value"
        driver.wait_for(lambda: asking.line == FIRST + 6, "the breakpoint")
        driver.prompt()
        assert asking.command("cl 1")[0] == "value"
        assert asking.command("n")[0] == "value"
        assert asking.line == FIRST + 7

    assert run(driver, script) == 16


@pytest.mark.parametrize(
    "command",
    [
        "n;;p total",
        "p total;;q",
        "p total = 3;;interact",
        "total = 100;;c;;p 1",
        "total = 100;;j 5",
        "total = 9;;u",
        "",
    ],
)
def test_what_is_refused_does_nothing_at_all(driver: Driver, asking: Asking, command: str) -> None:
    def script() -> None:
        before = asking.line
        kind, text = asking.command(command)
        assert kind == "error"
        assert "`" in text or "empty" in text
        assert asking.line == before
        assert asking.command("p total")[0] == "value"

    assert run(driver, script) == 16


@pytest.mark.parametrize("statement", ["total = 100", "!total = 100", "p 1;;total = 100", "total = 99;;total += 1"])
def test_assignments_stay(driver: Driver, asking: Asking, statement: str) -> None:
    changed: list[int] = []

    def script() -> None:
        before = asking.command("p total")[1]
        assert asking.command(statement)[0] == "value"
        assert asking.command("p total")[1] == "100"
        changed.append(100 - int(before))

    assert run(driver, script) == 16 + changed[0]


def test_frames_are_chosen_for_one_line(driver: Driver, asking: Asking) -> None:
    def script() -> None:
        kind, text = asking.command("u;;p sorted(locals())")
        assert kind == "value"
        assert "'finish'" in text
        assert "'finish'" not in asking.command("p sorted(locals())")[1]

    assert run(driver, script) == 16


def test_aliases_of_the_open_debugger_are_known(driver: Driver, asking: Asking) -> None:
    def script() -> None:
        driver.say("alias twice p %1 * 2;;n")
        driver.prompt()
        before = asking.line
        kind, text = asking.command("twice 21")
        assert (kind, asking.line) == ("value", before + 1)
        assert text.startswith("42\n")

    assert run(driver, script) == 16
