"""pdb sessions from end to end: a real broker, a real rank, and the real terminal in a window."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.smoke.test_pdb import at_prompt, let_end, run, sit, start
from tests.support.broker import RunningBroker
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_command, attach_list, wait_until_states
from tests.support.sessions import DETACH, detach

# From Python 3.13 on pdb begins on the line of the stop itself, not on the line after.
FIRST, AFTER_FIRST = (24, "loss = loss / 2") if sys.version_info >= (3, 13) else (25, "loss = loss - 1")
"""The line of the script at which pdb begins, and the text of the next line."""

COLUMNS = 200


def test_ctrl_c_breaks_into_a_rank_that_runs_with_a_breakpoint_left(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    start(processes, home, SCRIPT_LOOPS="1")
    terminal = sit(open_terminal)
    terminal.send("b long\r")
    terminal.wait_for("Breakpoint 1 at")
    terminal.send("c\r")
    wait_until_states(home, {0: "running"})
    terminal.send("\x03")
    at_prompt(terminal)
    assert float(run(terminal, "p loss")) > 0
    detach(terminal)
    assert attach(home, "kill", "0", "-y").returncode == 0


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


LATER = 26
"""A line after FIRST."""


def test_pudb_and_pdb_follow_each_other_on_one_stop(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start(processes, home)
    terminal = sit(open_terminal)
    terminal.send(f"b {LATER}\r")
    terminal.wait_for("Breakpoint 1 at")
    before = attach_list(home)[0]["where"]
    terminal.send(DETACH)
    assert terminal.exit_status() == 0
    pudb = open_terminal(attach_command("0", "--engine", "pudb"), rows=30, cols=COLUMNS)
    pudb.wait_for(lambda it: it.row(0).startswith("PuDB"))
    pudb.wait_for(re.compile(rf"rank_script\.py:{LATER}"))  # among its breakpoints
    detach(pudb)
    again = sit(open_terminal, "--engine", "pdb")
    assert attach_list(home)[0]["where"]["function"] == before["function"] == "train"
    assert f"rank_script.py:{LATER}" in run(again, "b")
    again.send("c\r")
    again.wait_for(re.compile(r"^-> loss = loss - 1$", re.MULTILINE))
    at_prompt(again)
    again.send("clear\ry\r")
    at_prompt(again)
    let_end(again, rank)
