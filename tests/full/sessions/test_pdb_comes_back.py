"""pdb sessions from end to end: a real broker, a real rank, and the real terminal in a window."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.smoke.test_pdb import let_end, run, sit, start
from tests.support.broker import RunningBroker
from tests.support.processes import Processes

# From Python 3.13 on pdb begins on the line of the stop itself, not on the line after.
FIRST, AFTER_FIRST = (24, "loss = loss / 2") if sys.version_info >= (3, 13) else (25, "loss = loss - 1")
"""The line of the script at which pdb begins, and the text of the next line."""


def test_whoever_comes_back_sees_what_was_last_said_and_the_source_at_once(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    terminal = sit(open_terminal)
    run(terminal, "p 'said before'")
    terminal.send("detach\r")
    assert terminal.exit_status() == 0
    again = sit(open_terminal, rows=40)
    again.wait_for("'said before'")
    again.wait_for(re.compile(rf"^ *{FIRST} *-> +", re.MULTILINE))
    let_end(again, rank)
