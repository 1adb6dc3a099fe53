"""Each command of pdb at a frame whose values and source fail: pdb shows the error and prompts, and the stop stays."""

from __future__ import annotations

import linecache
import pdb
import sys
from pathlib import Path

import pytest

from dbg_agent.rank.rank import Rank
from dbg_wire.messages import PromptState
from tests.unit.agent.pdb_driver import Driver, drive

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
