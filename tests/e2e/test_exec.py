"""A command beside ranks, run by their guards: who it is for, what it may, and how it ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes
from tests.support.ranks import ask, attach, start_ranks, wait_until_states

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


@pytest.fixture
def ranks(processes: Processes, home: Path) -> list[Child]:
    running_broker(processes, home)
    started = start_ranks(processes, home, SCRIPT, 4)
    wait_until_states(home, {0: "running", 1: "unresponsive", 2: "running", 3: "running"})
    return started


def test_native_frames_are_read_beside_a_rank_that_runs_or_is_stuck(ranks: list[Child], home: Path) -> None:
    if not Path(sys.executable).with_name("py-spy").exists():
        pytest.skip("py-spy is not installed")
    document = ask(home, "where", "all", "--native")
    stacks = {group["ranks"]: group["frames"] for group in document["groups"] if group["kind"] == "stack"}
    line = SCRIPT.splitlines().index("    ctypes.PyDLL(None).sleep(1000)") + 1
    for number, at in ((0, line + 1), (1, line)):
        frames = stacks[str(number)]
        place = next(index for index, frame in enumerate(frames) if frame["file"] == str(home / "rank_script.py"))
        assert frames[place]["line"] == at
        # Behind the program's frames are those of C code, without a line.
        assert frames[-1]["line"] == 0
        assert "libc" in frames[-1]["file"]
        assert place < len(frames) - 2
    others = {group["ranks"]: group["text"] for group in document["groups"] if group["kind"] == "error"}
    assert "forbidden" in str(others)
    assert "no guard" in str(others)


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
