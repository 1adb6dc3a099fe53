"""Ranks that wait inside of a library are asked, and their debuggers open, in the user's own frame or a chosen one."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import ask, attach, attach_command, start_ranks, texts, wait_until_states
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

STEP, BATCH = 8, 11
"""Lines at which the ranks of HANGING wait."""


def test_ranks_that_hang_in_a_library_are_asked_in_the_users_frame_or_another(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    start_ranks(processes, home, HANGING, 3)
    wait_until_states(home, dict.fromkeys(range(3), "running"))

    live = attach(home, "eval", "all", "step", "--live").stdout.splitlines()
    assert live[0].endswith(
        f", 2 different values, in train_step rank_script.py:{STEP} (2), next_batch rank_script.py:{BATCH} (1)"
    )
    assert [line.split()[-1] for line in live[1:]] == ["40", "41"]

    assert texts(ask(home, "interrupt", "all", "-y")) == {"0-2": "stopped"}
    first, second = ask(home, "eval", "all", "step")["groups"]
    assert (first["text"], first["frame"]["function"], first["frame"]["line"]) == ("40", "train_step", STEP)
    assert (second["text"], second["frame"]["function"], second["frame"]["line"]) == ("41", "next_batch", BATCH)
    (outer,) = ask(home, "eval", "all", "outer", "--frame", "main")["groups"]
    assert (outer["ranks"], outer["text"], outer["frame"]["function"]) == ("0-2", "'of main'", "main")
    innermost = attach(home, "command", "all", "whatis self", "--frame", "-1").stdout
    assert ", 1 value, in wait threading.py:" in innermost
    assert "<class 'threading.Condition'>" in innermost
    (wrong,) = ask(home, "eval", "0-1", "step", "--frame", "tarin_step")["groups"]
    assert (wrong["kind"], wrong["frame"]) == ("error", None)
    assert wrong["text"].endswith("wait, train_step, main, <module>")


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
