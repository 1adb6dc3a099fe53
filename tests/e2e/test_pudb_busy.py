"""Endless commands at PuDB's command line: the rank is listed as running, and Ctrl-C and ``interrupt`` end them.

A rank whose PuDB draws for long is listed as stopped.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb, wait_for_line
from tests.support.ranks import attach, attach_command, attach_list
from tests.support.stopped_rank import WORKING, WORKING_STOP, let_end, start_stopped
from tests.support.terminal import Terminal

pytestmark = pytest.mark.usefixtures("broker")

DRAWING = f"""\
import os
from pudb.debugger import DebuggerUI

def draw(ui, usual=DebuggerUI.update_stack):
    if draw.waits:
        draw.waits = False
        print("draws", flush=True)
        open(os.environ["GATE"]).close()
    usual(ui)

draw.waits = True
DebuggerUI.update_stack = draw
{WORKING}"""
"""WORKING, whose PuDB draws for the first time only when the test has opened the pipe GATE."""


def runs_forever(terminal: Terminal) -> None:
    """Type an endless command, and wait until the status line says that the rank runs."""
    terminal.send("!while True: pass\r")
    terminal.wait_for(lambda terminal: " running " in terminal.row(-1))


def test_ctrl_c_ends_it_and_the_stop_stays(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    rank = start_stopped(processes, home, WORKING)
    terminal = sit_in_pudb(open_terminal, "0")
    runs_forever(terminal)
    terminal.send("\x03")
    terminal.wait_for(re.compile("KeyboardInterrupt"))
    terminal.wait_for(lambda terminal: " stopped " in terminal.row(-1))
    terminal.send("\x15\x18n")
    wait_for_line(terminal, WORKING_STOP + 1)
    let_end(terminal, rank)


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


def test_exit_at_the_command_line_asks(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    rank = start_stopped(processes, home, WORKING)
    terminal = sit_in_pudb(open_terminal, "0")
    terminal.send("!exit()\r")
    terminal.wait_for("Leave the debugger?")
    terminal.send("s")
    terminal.wait_for(lambda terminal: "Leave the debugger?" not in "\n".join(terminal.screen))
    terminal.send("\x18n")
    wait_for_line(terminal, WORKING_STOP + 1)
    let_end(terminal, rank)


def test_tab_leaves_no_file_in_the_home(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    rank = start_stopped(processes, home, WORKING)
    before = sorted((home / "homes").rglob("*"))
    terminal = sit_in_pudb(open_terminal, "0")
    terminal.send("!import json\rjson.JSONDec\t")
    terminal.wait_for("json.JSONDecode")
    assert sorted((home / "homes").rglob("*")) == before
    terminal.send("\x15\x18")
    let_end(terminal, rank)


def test_a_rank_whose_pudb_draws_for_long_is_listed_as_stopped_and_answers_afterwards(
    processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    rank = start_stopped(processes, home, DRAWING, {"GATE": str(gate)})
    terminal = open_terminal(attach_command("0"), 24, 100)
    rank.wait_for_output("draws")
    # A rank that is told as running answers so within a second.
    answer = attach(home, "eval", "0", "1 + 1", "--timeout", "3")
    assert "not begun within 3 s" in answer.stdout + answer.stderr
    (listed,) = attach_list(home)
    assert listed["state"] == "stopped"
    gate.open("w").close()
    assert attach(home, "eval", "0", "1 + 1").stdout.split()[-1] == "2"
    terminal.wait_for("Variables:")
    terminal.send("c")
    assert rank.wait() == 0
