"""Stock debuggers in scripts of users, with the real broker and the real terminal in a window."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker
from tests.support.processes import Child, Processes
from tests.support.ranks import attach, attach_command, start_ranks, wait_until_stopped

PDB_SCRIPT = """\
from remote_pdb import RemotePdb

def train():
    loss = 0.25
    RemotePdb("127.0.0.1", 0).set_trace()
    for epoch in range(3):
        loss = loss / 2
    return loss

print("trained to", train(), flush=True)
"""


INSTALLED_SCRIPT = """\
from dbg_agent import install, uninstall

install()

from pudb.remote import set_trace
import remote_pdb

def train():
    set_trace(host="192.0.2.1", port=6899, term_size=(240, 72), reverse=True)
    remote_pdb.RemotePdb("192.0.2.1", 4444).set_trace()
    remote_pdb.set_trace()
    return 7

print("trained to", train(), flush=True)
uninstall()
import pudb.remote
print("restored:", pudb.remote.set_trace.__module__, remote_pdb.RemotePdb.__init__.__module__, flush=True)
"""


def start_pdb(processes: Processes, home: Path) -> tuple[Child, int]:
    script = home / "listening.py"
    script.write_text(PDB_SCRIPT)
    child = processes.start("listening", [sys.executable, str(script)])
    told = child.wait_for_output(r"session open at 127\.0\.0\.1:([0-9]+)", stream="stderr")
    return child, int(told[1])


def test_a_listening_remote_pdb_is_dialled_left_and_rejoined(
    processes: Processes, home: Path, broker: RunningBroker, open_terminal: OpenTerminal
) -> None:
    script, port = start_pdb(processes, home)
    target = f"tcp://127.0.0.1:{port}"
    first = open_terminal(attach_command(target), rows=24, cols=100)
    first.wait_for("(Pdb)")
    first.send("loss * 4\r")
    first.wait_for(re.compile(r"^1\.0$", re.MULTILINE))
    (listed,) = wait_until_stopped(home, 1)
    assert (listed["address"], listed["engine"]) == (f"{socket.gethostname().partition('.')[0]}:?1", "pdb")
    assert listed["where"]["function"] == "train"
    first.kill()
    again = open_terminal(attach_command("--take", target), rows=24, cols=100)
    again.wait_for(re.compile(r"loss \* 4\n1\.0"))
    again.send("n\r")
    again.wait_for("loss = loss / 2")
    again.send("c\r")
    assert again.exit_status() == 8
    assert script.wait() == 0
    assert "trained to 0.03125" in script.text()


def test_stock_calls_go_through_the_agent_where_that_was_asked_for(
    processes: Processes, home: Path, broker: RunningBroker
) -> None:
    script = start_ranks(processes, home, INSTALLED_SCRIPT, 1)[0]
    seen: list[int] = []
    for _ in range(3):
        stopped = wait_until_stopped(home, 1)[0]
        assert (stopped["pid"], stopped["where"]["function"]) == (script.pid, "train")
        seen.append(stopped["where"]["line"])
        assert attach(home, "continue", "0").returncode == 0
    assert script.wait() == 0
    assert len(set(seen)) == 3
    assert "trained to 7" in script.text()
    assert "restored: pudb.remote remote_pdb" in script.text()
