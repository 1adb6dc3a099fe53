"""Close to the recursion limit a program stops where it would in stock pdb, and finds its own limit afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_debuggers import HEAD, NESTED, TAIL
from tests.e2e.test_debuggers import let_deep_go as let_go
from tests.e2e.test_debuggers import start_deep as start_one
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import ask, start_ranks, texts, wait_until_states, wait_until_stopped
from tests.support.time_unit import seconds

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
def test_near_the_end_of_the_stack_it_goes_on_without_a_broker(first: bool, processes: Processes, home: Path) -> None:
    rank = start_one(processes, home, NEAR.format(first=first), DBG_CONNECT_TIMEOUT="0.1")
    assert rank.wait() == 0, rank.tail()
    assert rank.text() == "297\nthe limit is as before\n"
    lines = rank.text("stderr").splitlines()
    assert len(lines) <= 2
    assert all(line.startswith("dbg-agent: ") for line in lines), lines


STOCK = """\
import sys
if not {first}:
    breakpoint()
with_left(int(sys.argv[1]), breakpoint)
"""


def least_of_stock_pdb(folder: Path, *, first: bool) -> int:
    """Return how few calls may be left where stock pdb stops and steps."""
    script = folder / "stock.py"
    script.write_text(HEAD + STOCK.format(first=first))
    typed = "n\n" * 3 + "c\n" if first else "c\n" + "n\n" * 3 + "c\n"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    refused, enough = 4, 100
    ended = None
    while enough - refused > 1:
        left = (refused + enough) // 2
        command = [sys.executable, str(script), str(left)]
        ended = subprocess.run(
            command, input=typed, env=environ, text=True, timeout=seconds(20), capture_output=True, check=False
        )
        if ended.returncode == 0 and "after = 2" in ended.stdout:
            enough = left
        else:
            refused = left
    assert enough < 100, ended
    return enough


@pytest.mark.parametrize("engine", ["pdb", "pudb"])
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_it_stops_and_steps_where_stock_pdb_does(
    first: bool, engine: str, *, processes: Processes, home: Path, tmp_path: Path
) -> None:
    left = least_of_stock_pdb(tmp_path, first=first)
    running_broker(processes, home)
    before = "" if first else "import dbg_agent\ndbg_agent.set_trace(lease=0.01)\n"
    environ = {"PYTHONBREAKPOINT": "dbg_agent.set_trace", "DBG_ENGINE": engine}
    rank = start_one(processes, home, f"{before}with_left({left}, breakpoint)\n", **environ)
    wait_until_stopped(home, 1)
    for _ in range(3):
        ask(home, "command", "0", "n")
    assert "after" in texts(ask(home, "command", "0", "p dir()"))["0"]
    let_go(home, rank)


def test_a_child_that_is_forked_meanwhile_has_the_programs_limit(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = """\
import os, signal, threading
from dbg_agent import set_trace
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
set_trace(lease=0.01)
thread = threading.Thread(target=with_left, args=(20, set_trace))
thread.start()
signal.sigwait({signal.SIGUSR1})
print("raised", sys.getrecursionlimit() > limit, flush=True)
if os.fork() == 0:
    print("in the child", sys.getrecursionlimit() - limit, flush=True)
    os._exit(0)
os.wait()
thread.join()
"""
    rank = start_one(processes, home, script)
    wait_until_stopped(home, 1)
    rank.signal(signal.SIGUSR1)
    rank.wait_for_output("in the child")
    let_go(home, rank)
    assert rank.text() == "raised True\nin the child 0\nthe limit is as before\n"


OTHER_WAYS = {
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


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_other_ways_to_stop(way: str, processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = f"import dbg_agent\n{OTHER_WAYS[way]}"
    line = f"{HEAD}{script}".splitlines().index("    pass  # the stop") + 1 if way == "stop point" else 0
    stops = {"DBG_AUTOSTART": "1", "DBG_STOP_AT": f"{home / 'rank_script.py'}:{line}"} if line else {}
    ranks = start_ranks(processes, home, f"{HEAD}{script}{TAIL}", 1, env=stops, world_size=2)
    wait_until_states(home, {0: "held" if way == "hold" else "stopped"})
    assert texts(ask(home, "eval", "0", NESTED)) == {"0": "0"}
    let_go(home, ranks[0], "release" if way == "hold" else "continue")
