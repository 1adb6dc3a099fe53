"""A rank whose stderr no process reads can be attached to, held and let go."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, attach, start_ranks, texts, wait_until_states

FULL = """\
import os, sys
from dbg_agent import set_trace
unread, full = os.pipe()
os.set_blocking(full, False)
try:
    while True: os.write(full, b"x" * 4096)
except BlockingIOError:
    pass
os.set_blocking(full, True)
os.dup2(full, 2)
set_trace(ranks=0)
print("went on", flush=True)
"""


def test_a_rank_whose_stderr_is_full_can_be_looked_at_and_let_go(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, FULL, 2)
    wait_until_states(home, {0: "stopped", 1: "held"})
    assert texts(ask(home, "eval", "all", "6 * 7")) == {"0-1": "42"}
    assert attach(home, "continue", "0").returncode == 0
    for rank in ranks:
        assert rank.wait() == 0
        assert "went on" in rank.text()
