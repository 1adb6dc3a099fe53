"""The breakpoints of a session that its terminal knows when the session is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states

pytestmark = pytest.mark.usefixtures("broker")


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
