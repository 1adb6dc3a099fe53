"""Calls of stock debuggers in a script of a user that has installed the agent."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker import RunningBroker
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_stopped

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


def test_stock_debugger_calls_use_the_agent_when_requested(
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
