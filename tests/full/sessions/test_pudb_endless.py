"""Keys of PuDB over the broker: they work as on the rank's own terminal, or say why not; threads take turns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.processes import Processes
from tests.support.pudb_terminal import (
    sit_in_pudb,
    wait_for_line,
)
from tests.support.ranks import attach, attach_list
from tests.support.stopped_rank import (
    WORKING,
    WORKING_STOP,
    let_end,
    start_stopped,
)
from tests.support.terminal import Terminal

pytestmark = pytest.mark.usefixtures("broker")


def runs_forever(terminal: Terminal) -> None:
    """Type an endless command, and wait until the status line says that the rank runs."""
    terminal.send("!while True: pass\r")
    terminal.wait_for(lambda terminal: " running " in terminal.row(-1))


def test_others_are_told_at_once_and_can_end_it(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    rank = start_stopped(processes, home, WORKING)
    terminal = sit_in_pudb(open_terminal, "0")
    runs_forever(terminal)
    (listed,) = attach_list(home)
    assert listed["state"] == "running"
    for arguments in (["eval", "1 + 1"], ["continue"], ["command", "n"]):
        answer = attach(home, arguments[0], "0", *arguments[1:])
        assert "running" in answer.stdout + answer.stderr
        assert "no answer" not in answer.stdout + answer.stderr
    answer = attach(home, "interrupt", "0", "--json")
    assert answer.returncode == 0, answer.stderr
    terminal.wait_for(re.compile("KeyboardInterrupt"))
    (listed,) = attach_list(home)
    assert listed["state"] == "stopped"
    assert attach(home, "eval", "0", "1 + 1").stdout.split()[-1] == "2"
    terminal.send("\x15\x18n")
    wait_for_line(terminal, WORKING_STOP + 1)
    let_end(terminal, rank)
