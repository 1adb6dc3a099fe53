"""Ranks that wait inside of a library are asked, and their debuggers open, in the user's own frame or a chosen one."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import attach_command, start_ranks, wait_until_states
from tests.support.sessions import detach

HANGING = """\
import os
import threading
import dbg_agent
dbg_agent.install()
done = threading.Event()

def train_step(step):
    done.wait()

def next_batch(step):
    done.wait()

def main():
    outer = "of main"
    rank = int(os.environ["RANK"])
    (next_batch if rank == 2 else train_step)(40 + rank // 2)

main()
"""


STEP = 8
"""Line at which train_step() waits."""


def test_a_debugger_opens_at_the_frame_that_is_asked_for_and_a_session_asks_in_another(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, HANGING, 1)
    wait_until_states(home, {0: "running"})

    terminal = open_terminal(attach_command("interrupt", "0", "--frame", "main"), rows=30, cols=120)
    terminal.wait_for(DRAWN)
    terminal.wait_for(">> main")
    terminal.wait_for("in main rank_script.py:")
    terminal.send(b"\x1d:")
    terminal.wait_for("Esc leaves")
    terminal.send("e --frame train_step 0 step\r")
    terminal.wait_for(f"1 value, in train_step rank_script.py:{STEP}")
    terminal.send("q")
    terminal.wait_for(">> main")
    detach(terminal)

    again = open_terminal(attach_command("0", "--frame", "train_step"), rows=30, cols=120)
    again.wait_for(">> train_step")
    detach(again)
    missing = open_terminal(attach_command("0", "--frame", "tarin_step"), rows=30, cols=160)
    missing.wait_for("tarin_step")
    detach(missing)
