"""MindSpeed's functions, one by one, on two ranks: which rank stops, which waits, and what ends the wait."""

from __future__ import annotations

from pathlib import Path

from dbg_agent.program.stock_calls import UNSET
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states

SCRIPT = """\
import dbg_agent, pathlib, sys

dbg_agent.install()
folder = pathlib.Path("tools/debug_utils")
folder.mkdir(parents=True)
(folder / "pdb_utils.py").write_text("def breakpoint_(non_block=True): 1 / 0\\ndef clear_(): 1 / 0\\n")
sys.path.insert(0, "")
from tools.debug_utils.pdb_utils import breakpoint_, clear_

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
    assert {rank["where"]["function"] for rank in listed} == {"train"}
    assert attach(home, "continue", "1").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0, 0]


def test_without_the_variable_no_rank_stops_and_a_line_is_printed(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, SCRIPT.format(how="False", turns=3), 1, env={"RANK_TO_DEBUG": ""})
    assert rank.wait() == 0
    assert rank.text() == "passed 0\npassed 1\npassed 2\n"
    assert rank.text("stderr").count(UNSET) == 1
