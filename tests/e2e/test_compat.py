"""MindSpeed's functions, one by one, on two ranks: which rank stops, which waits, and what ends the wait."""

from __future__ import annotations

from pathlib import Path

from dbg_agent.compat.mindspeed import UNSET
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states

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


def test_with_false_the_others_wait_at_the_same_place(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, SCRIPT.format(how="False", turns=1), 3, env=RANK_ONE)
    listed = wait_until_states(home, {0: "held", 1: "stopped", 2: "held"})
    assert {(rank["where"]["line"], rank["where"]["function"]) for rank in listed} == {(5, "train")}
    assert attach(home, "continue", "1").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0, 0]


def test_without_the_variable_no_rank_stops_and_a_line_says_so(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, SCRIPT.format(how="False", turns=3), 1, env={"RANK_TO_DEBUG": ""})
    assert rank.wait() == 0
    assert rank.text() == "passed 0\npassed 1\npassed 2\n"
    assert rank.text("stderr") == f"dbg-agent: {UNSET}\n"
