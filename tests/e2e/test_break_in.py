"""Running ranks are broken into at any place, and go on afterwards as if nothing had happened."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.smoke.test_break_in import end, start
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, attach_command, texts, wait_until_states
from tests.support.time_unit import seconds


def test_it_attaches_to_a_single_rank_and_steps_go_on_from_there(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    (rank,) = start(processes, home, "loop")
    terminal = open_terminal(attach_command("interrupt", "0"), rows=30, cols=120)
    terminal.wait_for("count")
    terminal.wait_for("stopped")
    terminal.send(b"nn")
    terminal.send(b"\x1dd")
    assert terminal.exit_status() == 0
    end(home, rank)


def test_ctrl_c_keeps_its_meaning_for_the_job(processes: Processes, home: Path) -> None:
    (rank,) = start(processes, home, "sleep")
    assert texts(ask(home, "interrupt", "0")) == {"0": "stopped"}
    assert attach(home, "continue", "0").returncode == 0
    wait_until_states(home, {0: "running"})
    rank.signal(signal.SIGINT)
    assert rank.wait(seconds(20)) == -signal.SIGINT
    rank.wait_for_output("KeyboardInterrupt", stream="stderr")
