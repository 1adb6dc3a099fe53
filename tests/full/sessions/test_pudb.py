"""Keys of PuDB over the broker: they work as on the rank's own terminal; a terminal that has to wait is informed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.processes import Processes
from tests.support.pudb_terminal import line_after_all_keys, sit_in_pudb
from tests.support.ranks import attach, attach_command, attach_list
from tests.support.stopped_rank import WORKING, let_end, start_stopped, wait_for_whole

pytestmark = pytest.mark.usefixtures("broker")


STORMS = 6

STEPS = """\
import time, dbg_agent
dbg_agent.set_trace()
for number in range(1000):
    time.sleep(0.03)
    a = number
    time.sleep(0.3 if number % 4 == 1 else 0)
    b = a
"""
"""Some of its steps are reported as slow, others are not."""


def test_the_screen_is_correct_after_many_keys_and_resizes(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    start_stopped(processes, home, STEPS)
    terminal = sit_in_pudb(open_terminal, "0")
    for storm in range(STORMS):
        terminal.send("nnnnnnnnnnnn")
        if storm % 3 == 2:
            terminal.resize(24 + storm, 100 + storm)
        line_after_all_keys(terminal, home)
        wait_for_whole(terminal, home)


@pytest.mark.parametrize("shell", ["ipython", "classic", "ptpython"])
def test_any_configured_shell_stays_on_the_screen_of_pudb(
    shell: str, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    config = home / "homes" / "rank0" / ".config" / "pudb" / "pudb.cfg"
    config.parent.mkdir(parents=True)
    config.write_text(f"[pudb]\nshell = {shell}\n")
    rank = start_stopped(processes, home, WORKING)
    terminal = sit_in_pudb(open_terminal, "0")
    terminal.send("!6 * 7000\r")
    terminal.wait_for(re.compile(r"^42000$", re.MULTILINE))
    terminal.send(b"\x18")
    let_end(terminal, rank)
    assert config.read_text() == f"[pudb]\nshell = {shell}\n"


DRAWING = f"""\
import os
from pudb.debugger import DebuggerUI

def draw(ui, usual=DebuggerUI.update_breakpoints):
    if draw.waits:
        draw.waits = False
        print("draws", flush=True)
        open(os.environ["GATE"]).close()
    usual(ui)

draw.waits = True
DebuggerUI.update_breakpoints = draw
{WORKING}"""
"""WORKING, whose PuDB draws for the first time only when the test has opened the pipe GATE."""


def test_a_rank_is_listed_as_stopped_while_pudb_draws_and_answers_afterwards(
    processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    rank = start_stopped(processes, home, DRAWING, {"GATE": str(gate)})
    terminal = open_terminal(attach_command("0"), 24, 100)
    rank.wait_for_output("draws")
    # A rank that is listed as running answers so within a second.
    answer = attach(home, "eval", "0", "1 + 1", "--timeout", "3")
    assert "no answer in 3 s" in answer.stdout + answer.stderr
    (listed,) = attach_list(home)
    assert listed["state"] == "stopped"
    gate.open("w").close()
    assert attach(home, "eval", "0", "1 + 1").stdout.split()[-1] == "2"
    terminal.wait_for("Variables:")
    terminal.send("c")
    assert rank.wait() == 0
