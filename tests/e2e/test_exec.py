"""A command beside ranks, run by their guards: who it is for, what it may, and how it ends."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states

SCRIPT = """\
import ctypes, os, threading
from dbg_agent.guard import rank_side as guard
guard.BEAT_SECONDS, guard.STUCK_SECONDS = 0.2, 0.6
import dbg_agent
os.environ["OF_THE_RANK"] = "set by the program"
dbg_agent.install(exec=os.environ["RANK"] != "2", guard=os.environ["RANK"] != "3")
if os.environ["RANK"] == "1":
    ctypes.PyDLL(None).sleep(1000)
threading.Event().wait()
"""
"""Rank 0 waits, rank 1 is stuck in C code, rank 2 forbids commands, and rank 3 has no guard."""


def test_a_watcher_runs_nothing_and_the_log_says_who_ran_what(processes: Processes, home: Path) -> None:
    broker: RunningBroker = running_broker(processes, home, "-v")
    start_ranks(processes, home, SCRIPT, 1, env={"DBG_EXEC": "0"})
    wait_until_states(home, {0: "running"})
    token = {"DBG_TOKEN": broker.tokens["watcher"]}
    refused = attach(home, "exec", "0", "--", "true", env=token)
    assert refused.returncode == 5
    assert "only watch" in refused.stderr
    forbidden = attach(home, "exec", "0", "--", "echo", "one\x1b[2Jword")
    assert "forbidden there (DBG_EXEC=0" in forbidden.stdout
    log = broker.process.text("stderr")
    assert "runs echo one\\x1b[2Jword beside " in log
    assert "runs true" not in log
