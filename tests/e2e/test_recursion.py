"""Close to the recursion limit a program stops where it would in stock pdb, and finds its own limit afterwards."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import ask, attach, attach_command, start_ranks, texts, wait_until_stopped

HEAD = """\
import sys
def depth():
    frame, n = sys._getframe(), 0
    while frame is not None:
        frame, n = frame.f_back, n + 1
    return n
def deep(n, stop):
    if n:
        deep(n - 1, stop)
    else:
        stop()
        after = 1
        after = 2
        after = 3
def with_left(left, stop):
    deep(sys.getrecursionlimit() - depth() - left, stop)
limit = sys.getrecursionlimit()
"""

TAIL = """\
print("the limit is", "as before" if sys.getrecursionlimit() == limit else sys.getrecursionlimit())
"""


def start_one(processes: Processes, home: Path, script: str, **variables: str) -> Child:
    (rank,) = start_ranks(processes, home, f"{HEAD}{script}{TAIL}", 1, env=variables)
    return rank


def let_go(home: Path, rank: Child, verb: str = "continue") -> None:
    done = attach(home, verb, "all")
    assert done.returncode == 0, done.stderr
    assert rank.wait() == 0, rank.tail()
    assert rank.text().endswith("the limit is as before\n")


NESTED = "(lambda call: call(call, 100))(lambda call, n: n and call(call, n - 1))"
"""An expression that calls itself a hundred times."""


def test_deep_in_the_stack_it_stops_opens_and_answers(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    rank = start_one(processes, home, "from dbg_agent import set_trace\nwith_left(60, set_trace)\n")
    wait_until_stopped(home, 1)
    assert texts(ask(home, "eval", "0", NESTED)) == {"0": "0"}
    terminal = open_terminal(attach_command(":0"), cols=100)
    terminal.wait_for(DRAWN)
    let_go(home, rank)
    assert terminal.exit_status() == 7
