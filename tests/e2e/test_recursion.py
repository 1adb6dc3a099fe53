"""Close to the recursion limit a program stops where it would in stock pdb, and finds its own limit afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import ask, attach, attach_command, start_ranks, texts, wait_until_states, wait_until_stopped
from tests.support.time_unit import seconds

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


NESTED = "(lambda call: call(call, 100))(lambda call, n: n and call(call, n - 1))"
"""An expression that calls itself a hundred times."""


@pytest.mark.parametrize("left", [60, 110, 150, 200, 300])
def test_deep_in_the_stack_it_stops_opens_and_answers(
    left: int, *, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    rank = start_one(processes, home, f"from dbg_agent import set_trace\nwith_left({left}, set_trace)\n")
    wait_until_stopped(home, 1)
    assert texts(ask(home, "eval", "0", NESTED)) == {"0": "0"}
    terminal = open_terminal(attach_command(":0"), cols=100)
    terminal.wait_for(DRAWN)
    let_go(home, rank)
    assert terminal.exit_status() == 7


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
    for left in range(5, 100):
        command = [sys.executable, str(script), str(left)]
        ended = subprocess.run(
            command, input=typed, env=environ, text=True, timeout=seconds(20), capture_output=True, check=False
        )
        if ended.returncode == 0 and "after = 2" in ended.stdout:
            return left
    raise AssertionError(ended.stderr)


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


def test_a_running_program_is_broken_into(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    script = """\
import dbg_agent
dbg_agent.install()
ends = False
def spin():
    print("spins", flush=True)
    while not ends:
        pass
with_left(20, spin)
"""
    rank = start_one(processes, home, script)
    rank.wait_for_output("spins")
    wait_until_states(home, {0: "running"})
    assert texts(ask(home, "eval", "0", NESTED, "--live")) == {"0": "0"}
    assert texts(ask(home, "interrupt", "0")) == {"0": "stopped"}
    ask(home, "command", "0", "globals()['ends'] = True")
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
