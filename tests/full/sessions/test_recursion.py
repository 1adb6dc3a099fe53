"""Close to the recursion limit a program goes on without a stop, as it would without us."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_debuggers import HEAD, TAIL
from tests.e2e.test_debuggers import let_deep_go as release
from tests.e2e.test_debuggers import start_deep as start_one
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, start_ranks, wait_until_stopped

NEAR = """\
from dbg_agent import set_trace
reached = []
if {first}:
    set_trace()
for left in range(300, 3, -1):
    with_left(left, lambda: (set_trace(), reached.append(left)))
print(len(reached))
"""


@pytest.mark.parametrize("first", [False, True])
def test_set_trace_near_the_limit_continues_without_a_broker(first: bool, processes: Processes, home: Path) -> None:
    rank = start_one(processes, home, NEAR.format(first=first), DBG_CONNECT_TIMEOUT="0.1")
    assert rank.wait() == 0, rank.tail()
    assert rank.text() == "297\nthe limit is as before\n"
    lines = rank.text("stderr").splitlines()
    assert len(lines) <= 3
    assert all(line.startswith("dbg-agent: ") for line in lines), lines


STEPS = """\
from dbg_agent import set_trace
def down(n):
    return down(n - 1) if n else 0
def step():
    set_trace()
    down(sys.getrecursionlimit() - depth() - 4)
    print("came back", flush=True)
with_left(300, step)
"""


@pytest.mark.parametrize("engine", ["pdb", "pudb"])
def test_a_step_over_calls_near_the_limit_ends(engine: str, processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    rank = start_one(processes, home, STEPS, DBG_ENGINE=engine)
    wait_until_stopped(home, 1)
    for _ in range(2):
        ask(home, "command", "0", "n")
    ask(home, "command", "0", "n")
    rank.wait_for_output("came back")
    release(home, rank)


WAYS = {
    "set_trace": "with_left(50, dbg_agent.set_trace)\n",
    "post_mortem": """\
def fail():
    try:
        1 / 0
    except ZeroDivisionError:
        dbg_agent.post_mortem(lease=600)
with_left(50, fail)
""",
    "stop point": """\
def nothing():
    pass  # the stop
with_left(50, nothing)
""",
    "hold": "with_left(50, lambda: dbg_agent.set_trace(ranks=1, hold_grace=600))\n",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_near_the_limit_is_refused_and_reported_once(way: str, processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = f"import dbg_agent\n{WAYS[way] * 2}"
    line = f"{HEAD}{script}".splitlines().index("    pass  # the stop") + 1 if way == "stop point" else 0
    stops = {"DBG_AUTOSTART": "1", "DBG_STOP_AT": f"{home / 'rank_script.py'}:{line}"} if line else {}
    ranks = start_ranks(processes, home, f"{HEAD}{script}{TAIL}", 1, env=stops, world_size=2)
    assert ranks[0].wait() == 0, ranks[0].tail()
    assert ranks[0].text() == "the limit is as before\n"
    # A stop point reports at the end, too, that it was not reached.
    assert ranks[0].text("stderr").count("dbg-agent: ") == (2 if line else 1)
