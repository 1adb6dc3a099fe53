"""MindSpeed's functions, one by one, on two ranks: which rank stops, which waits, and what ends the wait."""

from __future__ import annotations

import re
from pathlib import Path

from dbg_agent.compat.mindspeed import UNSET
from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, attach_command, start_ranks, texts, wait_until_states
from tests.support.sessions import DETACH

SCRIPT = """\
from dbg_agent.compat.mindspeed import breakpoint_, clear_

def train(turn):
    loss = 0.25 + turn
    breakpoint_({how})
    print("passed", turn, flush=True)

clear_()
for turn in range({turns}):
    train(turn)
    clear_()
"""

RANK_ONE = {"RANK_TO_DEBUG": "1"}


def test_by_itself_it_stops_its_rank_in_the_callers_frame_and_holds_nobody(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT.format(how="", turns=1), 2, env=RANK_ONE)
    assert ranks[0].wait() == 0
    (stopped,) = wait_until_states(home, {1: "stopped"})
    assert stopped["where"] == {"file": str(home / "rank_script.py"), "line": 5, "function": "train"}
    assert texts(ask(home, "eval", "1", "loss")) == {"1": "0.25"}
    assert attach(home, "continue", "1").returncode == 0
    assert ranks[1].wait() == 0
    assert [rank.text() for rank in ranks] == ["passed 0\n"] * 2


def test_with_false_the_others_wait_at_the_same_place(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT.format(how="False", turns=1), 3, env=RANK_ONE)
    listed = wait_until_states(home, {0: "held", 1: "stopped", 2: "held"})
    assert {(rank["where"]["line"], rank["where"]["function"]) for rank in listed} == {(5, "train")}
    assert attach(home, "continue", "1").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0, 0]


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


def test_without_the_variable_no_rank_stops_and_a_line_says_so(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, SCRIPT.format(how="False", turns=3), 1, env={"RANK_TO_DEBUG": ""})
    assert rank.wait() == 0
    assert rank.text() == "passed 0\npassed 1\npassed 2\n"
    assert rank.text("stderr") == f"dbg-agent: {UNSET}\n"
