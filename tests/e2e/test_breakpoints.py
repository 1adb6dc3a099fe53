"""Breakpoints set through the broker in ranks that run, and those of a session when it is over."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from dbg_agent.breakpoints.compiled import UNMADE
from dbg_wire.records.breakpoints import BreakpointsWish, BreakpointWish, LineOfFile
from tests.conftest import OpenTerminal
from tests.smoke.test_break_in import wishes
from tests.support import one_session
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states
from tests.support.stopped_rank import COUNTING, COUNTING_STOP, start_stopped
from tests.support.terminal import Terminal

STILL_IMPORTS = """\
import os
import time
import dbg_agent
dbg_agent.install()
while not os.path.exists("imported"):
    time.sleep(0.01)

def decorated(function):
    return lambda number: function(number)

class Model:
    @decorated
    def step(number):
        loss = number / 2
        return loss

def train():
    while not os.path.exists("read"):
        time.sleep(0.01)
    def step(number):
        return number * 2  # inner
    number = 0
    while not os.path.exists("enough"):
        Model.step(number)
        step(number)
        number += 1
        time.sleep(0.001)

train()
print("ended well", flush=True)
"""
"""A script whose functions are made when its imports are over."""


def test_functions_that_are_not_made_yet_stop_once_they_are(
    processes: Processes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_broker(processes, home)
    monkeypatch.setenv("DBG_HOME", str(home))
    (rank,) = start_ranks(processes, home, STILL_IMPORTS, 1)
    wait_until_states(home, {0: "running"})
    number = next(number for number, text in enumerate(STILL_IMPORTS.splitlines(), 1) if "# inner" in text)
    wish = BreakpointWish(file=str(home / "rank_script.py"), line=number)
    (((state,),)) = asyncio.run(wishes(BreakpointsWish(set=(wish,))))
    assert state.is_set
    assert state.problem == ("" if sys.version_info >= (3, 12) else UNMADE)
    (home / "homes/rank0/imported").touch()
    (home / "homes/rank0/read").touch()
    wait_until_states(home, {0: "stopped"})
    (((state,),)) = asyncio.run(wishes(BreakpointsWish()))
    assert state.hits_so_far == 1
    asyncio.run(wishes(BreakpointsWish(clear=(LineOfFile(file=wish.file, line=number),))))
    (home / "homes/rank0/enough").touch()
    attach(home, "continue", "all")
    assert rank.wait() == 0
    assert "ended well" in rank.text()


EMPTY_PROMPT = re.compile(r"^\(Pdb\)$", re.MULTILINE)
FIRST, SECOND, THIRD = COUNTING_STOP + 1, COUNTING_STOP + 2, COUNTING_STOP + 3
"""The first counting lines after the stop."""


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return tmp_path / "breakpoints.json"


def sit(open_terminal: OpenTerminal, told: Path, engine: str) -> Terminal:
    return open_terminal([sys.executable, str(Path(one_session.__file__)), str(told), "0", engine], 40, 120)


def shows_breakpoint(terminal: Terminal, line: int) -> None:
    terminal.wait_for(re.compile(rf"rank_script\.py:{line} \("))


def ends(terminal: Terminal, told: Path) -> list[list[Any]]:
    """Wait for the end of the session, and return its breakpoints, with file names instead of paths."""
    assert terminal.exit_status() == 0, terminal.dump()
    found = json.loads(told.read_text(encoding="utf-8"))
    assert all(Path(file).is_file() for file, _, _ in found)
    return [[Path(file).name, *rest] for file, *rest in found]


@pytest.mark.usefixtures("broker")
def test_breakpoints_set_in_pdb_are_known_when_the_rank_is_dead(
    processes: Processes, home: Path, open_terminal: OpenTerminal, told: Path
) -> None:
    rank = start_stopped(processes, home, COUNTING)
    terminal = sit(open_terminal, told, "pdb")
    for command, answer in (
        (f"b {THIRD}, n > 1", "Breakpoint 1"),
        (f"b {FIRST}", "Breakpoint 2"),
        (f"tbreak {SECOND}", "Breakpoint 3"),
        ("b counting", "Breakpoint 4"),
        ("cl 2", "Deleted breakpoint 2"),
    ):
        terminal.wait_for(EMPTY_PROMPT)
        terminal.send(f"{command}\r")
        terminal.wait_for(answer)
    terminal.wait_for(EMPTY_PROMPT)
    rank.kill()

    assert ends(terminal, told) == [["rank_script.py", COUNTING_STOP, None], ["rank_script.py", THIRD, "n > 1"]]
