"""Keys of PuDB over the broker: they work as on the rank's own terminal, or say why not; threads take turns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.processes import Processes
from tests.support.pudb_terminal import (
    line_after_all_keys,
    sit_in_pudb,
    wait_for_line,
)
from tests.support.stopped_rank import (
    SCALED,
    WORKING,
    WORKING_STOP,
    let_end,
    start_stopped,
    wait_until_gone,
)

pytestmark = pytest.mark.usefixtures("broker")


def test_steps_breakpoints_and_expressions(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    rank = start_stopped(processes, home, WORKING)
    terminal = sit_in_pudb(open_terminal, "0")
    terminal.send("n")
    wait_for_line(terminal, WORKING_STOP + 1)
    terminal.send("s")
    terminal.wait_for(re.compile(r">> scaled"))
    terminal.send("n")
    wait_for_line(terminal, SCALED)
    terminal.wait_for("number: 4")
    terminal.send("!number * 1000 + 2\r")
    terminal.wait_for(re.compile(r"^4002$", re.MULTILINE))
    terminal.send("number = 5\r\x18n")
    terminal.wait_for("result: 50")
    terminal.send("nn")
    terminal.wait_for("a: 50")
    wait_for_line(terminal, WORKING_STOP + 2)
    # A breakpoint is set two lines down, where `c` stops.
    terminal.send("jjb")
    terminal.wait_for(re.compile(r"rank_script\.py:17"))
    terminal.send("c")
    terminal.wait_for("c: 52")
    assert line_after_all_keys(terminal, home) == WORKING_STOP + 4
    terminal.send("b")
    wait_until_gone(terminal, "rank_script.py:17 (")
    let_end(terminal, rank, result=54)
