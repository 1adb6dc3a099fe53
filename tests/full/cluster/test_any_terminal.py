"""Any terminal reaches any rank: three brokers, three servers of NATS, real ranks in PuDB and pdb."""

from __future__ import annotations

import pytest

from tests.conftest import OpenTerminal
from tests.support.cluster import Brokers, seat
from tests.support.pudb_terminal import line_after_all_keys, line_shown, wait_for_line
from tests.support.ranks import (
    ask,
    attach,
    wait_until_states,
)
from tests.support.straight import LINES, STOP, STRAIGHT

HELD = """\
from dbg_agent import set_trace
set_trace(ranks=0)
print("went on", flush=True)
"""

BUSY = """\
import os
import time
import dbg_agent
dbg_agent.install()
def work():
    while not os.path.exists("end"):
        time.sleep(0.05)
work()
"""


def test_ranks_of_all_brokers_are_held_for_one(brokers: Brokers) -> None:
    ranks = brokers.start_one_at_each(HELD)
    wait_until_states(brokers[2].home, {0: "stopped", 1: "held", 2: "held"})
    assert attach(brokers[1].home, "release", "2").returncode == 0
    ranks[2].wait_for_output("went on")
    assert ranks[2].wait() == 0
    assert attach(brokers[2].home, "continue", "0").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0, 0]


def test_a_running_rank_of_another_broker_is_broken_into(brokers: Brokers, open_terminal: OpenTerminal) -> None:
    rank = brokers.start_rank(0, BUSY)
    wait_until_states(brokers[1].home, {0: "running"})
    assert attach(brokers[1].home, "interrupt", "0").returncode == 0
    wait_until_states(brokers[2].home, {0: "stopped"})
    assert attach(brokers[2].home, "continue", "0").returncode == 0
    wait_until_states(brokers[1].home, {0: "running"})
    (brokers[0].home / "homes/rank0/end").touch()
    assert rank.wait() == 0


@pytest.mark.parametrize("killed", ["the rank's", "the terminal's"])
def test_a_broker_is_killed_under_a_seated_terminal(killed: str, brokers: Brokers, open_terminal: OpenTerminal) -> None:
    rank = brokers.start_rank(0, STRAIGHT)
    wait_until_states(brokers[1].home, {0: "stopped"})
    terminal = seat(open_terminal, brokers[1], "0")
    terminal.send("n" * 40)
    terminal.wait_for(lambda shown: line_shown(shown) >= STOP + 3)
    brokers[0 if killed == "the rank's" else 1].kill()
    terminal.send("n" * 30)
    wait_for_line(terminal, STOP + 70)
    assert line_after_all_keys(terminal, brokers[2].home) == STOP + 70
    assert "discarded" not in terminal.output.decode(errors="replace")
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text().splitlines()[-1] == f"total {LINES}"


def test_a_suspended_broker_slows_nobody_else(brokers: Brokers, open_terminal: OpenTerminal) -> None:
    brokers.start_rank(0, STRAIGHT)
    wait_until_states(brokers[1].home, {0: "stopped"})
    looks = seat(open_terminal, brokers[2], "0", "--watch")
    types = seat(open_terminal, brokers[1], "0")
    brokers[2].suspend()
    try:
        for typed in range(1, 6):
            types.send("n")
            wait_for_line(types, STOP + typed)
        assert ask(brokers[1].home, "eval", "0", "n")
    finally:
        brokers[2].resume()
    looks.wait_for("n: 4")
