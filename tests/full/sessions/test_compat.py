"""MindSpeed's functions, one by one, on two ranks: which rank stops, which waits, and what ends the wait."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.e2e.test_compat import RANK_ONE, SCRIPT
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, attach_command, start_ranks, texts, wait_until_states
from tests.support.sessions import DETACH


def test_clear_lets_the_others_go_before_the_stop_ends_and_counts_once(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT.format(how="non_block=False", turns=2), 2, env=RANK_ONE)
    wait_until_states(home, {0: "held", 1: "stopped"})
    terminal = open_terminal(attach_command("1", "--engine", "pdb"), rows=24, cols=100)
    terminal.wait_for("(Pdb)")
    terminal.send("clear_()\r")
    ranks[0].wait_for_output("passed 0")
    terminal.wait_for(re.compile(r"clear_\(\)\n\(Pdb\)"))
    terminal.send(DETACH)
    assert terminal.exit_status() == 0
    # Rank 0 is at its second visit now, where it waits for the second stop of rank 1, not the first.
    wait_until_states(home, {0: "held", 1: "stopped"})
    assert texts(ask(home, "eval", "all", "turn")) == {"0": "1", "1": "0"}
    assert attach(home, "continue", "1").returncode == 0
    ranks[1].wait_for_output("passed 0")
    wait_until_states(home, {0: "held", 1: "stopped"})
    assert texts(ask(home, "eval", "all", "turn")) == {"0-1": "1"}
    assert attach(home, "continue", "1").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0]
