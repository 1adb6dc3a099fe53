"""The breakpoints of a session that its terminal knows when the session is over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.e2e.test_user_breakpoints import FIRST, SECOND, THIRD, ends, sit
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states
from tests.support.stopped_rank import COUNTING, COUNTING_STOP, start_stopped

pytestmark = pytest.mark.usefixtures("broker")


EMPTY_PROMPT = re.compile(r"^\(Pdb\)$", re.MULTILINE)


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


SCRIPT = """\
import builtins, os, sys
import dbg_agent

class Last:
    def __del__(self):
        self.write(1, f"traced at the end: {self.tracer()}\\n".encode())

def later():
    pass

Last.write, Last.tracer = staticmethod(os.write), staticmethod(sys.gettrace)
builtins.last = Last()
dbg_agent.set_trace()
print("traced in the program:", sys.gettrace() is not None)
"""


def test_finalizers_that_python_runs_last_are_not_traced(processes: Processes, home: Path) -> None:
    (rank,) = start_ranks(processes, home, SCRIPT, 1)
    wait_until_states(home, {0: "stopped"})
    attach(home, "command", "0", "b later")
    attach(home, "continue", "0")
    assert rank.wait() == 0
    said = rank.text()
    assert "traced in the program: True" in said
    assert "traced at the end: None" in said
