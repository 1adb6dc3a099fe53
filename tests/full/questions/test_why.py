"""`why` over ranks without torch: what each does by itself, asked by a watcher and from a session."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, start_ranks, wait_until_states

OTHER_SCRIPT = """\
import os, socket, subprocess
rank = os.environ["RANK"]
import dbg_agent
dbg_agent.install()

def convert():
    subprocess.run(["sleep", "3600"])

def receive(end):
    end.recv(1)

def train():
    while True:
        sum(range(1000))

ends = socket.socketpair()
print("ready", flush=True)
if rank == "1":
    convert()
elif rank == "2":
    receive(ends[0])
else:
    train()
"""
"""Rank 0 works, rank 1 waits for a child and rank 2 for a socket."""


def test_a_suspended_rank_and_waits_are_told(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    ranks = start_ranks(processes, home, OTHER_SCRIPT, 3)
    wait_until_states(home, dict.fromkeys(range(3), "running"))
    for rank in ranks:
        rank.wait_for_output("ready")

    told = attach(home, "why", "--json")

    assert told.returncode == 1, told
    (waiting,) = (one for one in json.loads(told.stdout)["verdicts"] if one["kind"] == "waiting")
    assert waiting["ranks"] == "1-2"
    evidence = "\n".join(waiting["evidence"])
    assert "sleep 3600" in evidence
    assert "socket" in evidence

    os.kill(ranks[0].pid, signal.SIGSTOP)
    wait_until_states(home, {0: "unresponsive", 1: "running", 2: "running"})

    told = attach(home, "why", "--json")

    assert told.returncode == 1, told
    (suspended,) = (one for one in json.loads(told.stdout)["verdicts"] if one["kind"] == "suspended")
    assert suspended["ranks"] == "0"
    assert "is suspended (SIGSTOP)" in suspended["sentence"]
    os.kill(ranks[0].pid, signal.SIGCONT)
