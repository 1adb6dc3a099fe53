"""Training goes on without a working broker: a rank prints one line, and waits only once."""

from __future__ import annotations

from pathlib import Path

from tests.support.fake_brokers import TOKEN
from tests.support.processes import Child, Processes
from tests.support.ranks import start_ranks
from tests.support.time_unit import seconds

PASSES = """\
import threading
from dbg_agent import set_trace
wait, waited = threading.Condition.wait, []
def counted(condition, timeout=None):
    if threading.current_thread() is threading.main_thread() and number not in waited:
        waited.append(number)
    return wait(condition, timeout)
threading.Condition.wait = counted
print("before", flush=True)
for number in range(1000):
    set_trace()
print(f"waited in {waited}")
print("after")
"""
"""Passes 1,000 calls, and prints the numbers of those that waited."""

WAIT_SECONDS = 0.3
"""Timeout in seconds of ranks that wait until it is over."""


def one_line(rank: Child) -> str:
    text = rank.text("stderr")
    assert text.startswith("dbg-agent: ")
    assert text.endswith("\n")
    line = text[:-1]
    assert line.isprintable(), "more than a line, or characters that act on a terminal"
    assert TOKEN not in line
    return line


def test_a_loop_waits_once_for_a_broker_that_may_start(processes: Processes, home: Path) -> None:
    (rank,) = start_ranks(processes, home, PASSES, 1, env={"DBG_CONNECT_TIMEOUT": str(WAIT_SECONDS)})
    assert rank.wait(seconds(30)) == 0
    assert rank.text() == "before\nwaited in [0]\nafter\n"
    one_line(rank)
