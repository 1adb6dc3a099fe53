"""pdb sessions from end to end: a real broker, a real rank, and the real terminal in a window."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.smoke.test_pdb import at_prompt, let_end, run, sit, start
from tests.support.broker import RunningBroker
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_command, attach_list, wait_until_states
from tests.support.sessions import DETACH, detach

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
    terminal.wait_for(re.compile(r"^-> .*\n\(Pdb\)$", re.MULTILINE))
    at_prompt(terminal)
    assert float(run(terminal, "p loss")) > 0
    detach(terminal)
    assert attach(home, "kill", "0", "-y").returncode == 0


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
