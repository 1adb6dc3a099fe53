"""A breakpoint whose commands print and go on, at a real rank: the terminal shows all values in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.e2e.test_pdb_sessions import at_prompt
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach_command, start_ranks, wait_until_stopped
from tests.support.time_unit import seconds

SCRIPT = """\
import os, time
from dbg_agent import set_trace

def train(steps, pause):
    set_trace(engine="pdb")
    for step in range(steps):
        time.sleep(pause)
        loss = step * 7
    return loss

train(int(os.environ["STEPS"]), float(os.environ["PAUSE"]))
"""

TRACED = 8

pytestmark = pytest.mark.timeout(seconds(90))


@pytest.mark.parametrize(("steps", "pause"), [(6, 0.3), (40, 0.01), (200, 0.0)])
def test_each_value_is_seen(
    processes: Processes, home: Path, open_terminal: OpenTerminal, steps: int, pause: float
) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, SCRIPT, 1, env={"STEPS": str(steps), "PAUSE": str(pause)})
    wait_until_stopped(home, 1)
    terminal = open_terminal(attach_command("0"), rows=24, cols=100)
    at_prompt(terminal)
    terminal.send(f"b {TRACED}\rcommands\rp 'not', step\r")
    terminal.wait_for(lambda it: "(com) p 'not', step" in it.screen)
    at_prompt(terminal, "(com)")
    terminal.send("\x04")
    at_prompt(terminal)
    terminal.send("commands 1\rsilent\rp 'v', step\rc\r")
    terminal.wait_for(lambda it: "(com) c" in it.screen)
    at_prompt(terminal)
    terminal.send("c\r")
    assert terminal.exit_status() in (7, 8), terminal.dump()
    assert rank.wait() == 0
    values = [int(value) for value in re.findall(rb"\('v', ([0-9]+)\)\r?\n", terminal.output)]
    assert values == list(range(steps))
    assert terminal.output.count(b"breakpoint left") == 1, "told once, when the user let it go on"
