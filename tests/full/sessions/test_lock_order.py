"""A rank takes its locks in the order of docs/threads.md in everything that a terminal does with it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.packages import ROOT, THREADS
from tests.support.processes import Processes
from tests.support.pudb_terminal import sit_in_pudb, wait_for_line
from tests.support.ranks import ask, attach, attach_command, start_ranks, texts, wait_until_states
from tests.support.sessions import detach
from tests.support.time_unit import seconds

SCRIPT = """\
import atexit, os, sys, threading
from tests.support import lock_order
atexit.register(lock_order.write, os.environ["PAIRS"])
lock_order.record()
from dbg_agent import install, set_trace

def other():
    set_trace(ranks=0)

def train(loss):
    set_trace()
    loss += 1
    print("printed", flush=True)
    loss += 1
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    while not os.path.exists("end"):
        loss += 1
    if os.fork() == 0:
        os._exit(0)
    os.wait()

install()
train(0)
"""

STOP = SCRIPT.splitlines().index("    set_trace()") + 1


def order_of_locks() -> dict[str, int]:
    """Return the number of each lock in the page's table."""
    rows = re.findall(r"^\| (\d+) \| `([^`]+)` `([^`]+)` \|", THREADS.read_text(), re.MULTILINE)
    return {f"{file} {name}": int(number) for number, file, name in rows}


def test_locks_are_taken_in_the_documented_order(
    processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    pairs = tmp_path / "pairs"
    running_broker(processes, home)
    (rank,) = start_ranks(processes, home, SCRIPT, 1, env={"PAIRS": str(pairs), "PYTHONPATH": str(ROOT)})
    wait_until_states(home, {0: "stopped"})
    assert texts(ask(home, "eval", "0", "loss")) == {"0": "0"}
    assert texts(ask(home, "command", "0", "p loss")) == {"0": "0"}
    ask(home, "where", "0")

    lines = open_terminal(attach_command("0", "--engine", "pdb"))
    lines.wait_for("(Pdb)")
    lines.send("p lo\t + 41\r")
    lines.wait_for("41")
    lines.send("n\r")
    lines.wait_for(re.compile(r"-> print\(.*\n\(Pdb\)"))
    detach(lines)

    screen = sit_in_pudb(open_terminal, "0", "--engine", "pudb", "--take")
    screen.resize(30, 120)
    screen.send("n")
    wait_for_line(screen, STOP + 3)
    assert attach(home, "screen", "0").returncode == 0
    detach(screen)

    assert attach(home, "continue", "0").returncode == 0
    wait_until_states(home, {0: "stopped"})
    assert attach(home, "continue", "0").returncode == 0
    wait_until_states(home, {0: "running"})
    assert texts(ask(home, "eval", "0", "loss > 1", "--live")) == {"0": "True"}
    ask(home, "interrupt", "0")
    wait_until_states(home, {0: "stopped"})
    (home / "homes/rank0/end").touch()
    assert attach(home, "continue", "0").returncode == 0
    assert rank.wait(seconds(20)) == 0

    order = order_of_locks()
    seen = {tuple(json.loads(line)) for line in pairs.read_text().splitlines()}
    assert [pair for pair in seen if order[pair[0]] >= order[pair[1]]] == []
    # The recording works: output, drawing and the end of a stop take these locks one inside the other.
    assert {
        ("agent/debuggers/console.py _lock", "agent/debuggers/console.py _screen_lock"),
        ("agent/debuggers/console.py _screen_lock", "agent/link/outgoing.py _lock"),
        ("agent/stop/inbox.py _changed", "agent/stop/stops.py _turn"),
        ("agent/link/fork_safety.py _busy", "agent/stop/inbox.py _changed"),
    } <= seen
