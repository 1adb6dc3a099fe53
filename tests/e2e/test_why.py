"""`why` over ranks without torch: what each does by itself, asked by a watcher and from a session."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import attach, attach_command, start_ranks, wait_until_states
from tests.support.sessions import detach
from tests.support.tokens import written_tokens

OPEN = "\x1d:"
"""The prefix, and the key behind it that opens the command line."""

SCRIPT = """\
import os, threading
import dbg_agent
dbg_agent.install()

first, second = threading.Lock(), threading.Lock()
both = threading.Barrier(2)

def take(mine, other):
    with mine:
        both.wait()
        with other:
            pass

def read_shard():
    with open(os.environ["SHARD"]) as shard:
        shard.read()

rank = os.environ["RANK"]
if rank == "0":
    dbg_agent.set_trace()
elif rank == "1":
    read_shard()
else:
    threading.Thread(target=take, args=(second, first), name="pump", daemon=True).start()
    take(first, second)
"""
"""Rank 0 stops, rank 1 opens a file that nobody writes to, rank 2 has a deadlock, and rank 3 never comes."""


def test_what_each_rank_does_is_told_to_a_watcher_and_in_a_session(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    shard = home / "shard"
    os.mkfifo(shard)
    start_ranks(processes, home, SCRIPT, 3, env={"SHARD": str(shard), "WORLD_SIZE": "4"})
    wait_until_states(home, {0: "stopped", 1: "running", 2: "running"})

    told = attach(home, "why", "--json", env={"DBG_TOKEN": written_tokens(home)["watcher"]})

    document = json.loads(told.stdout)
    verdicts = {one["kind"]: one for one in document["verdicts"]}
    assert (told.returncode, document["asked"], document["answered"]) == (1, 4, 3), told
    assert verdicts["absent"]["ranks"] == "3"
    assert verdicts["deadlock"]["ranks"] == "2"
    assert [line.split()[1] for line in verdicts["deadlock"]["evidence"] if line.startswith("thread")] == [
        "MainThread",
        "pump",
    ]
    assert "0" in verdicts["waiting"]["ranks"]
    terminal = open_terminal(attach_command("0"), cols=200)
    terminal.wait_for(DRAWN)
    terminal.send(OPEN)
    terminal.wait_for("Esc leaves")
    terminal.send("why\r")
    terminal.wait_for(verdicts["deadlock"]["sentence"])
    terminal.send("q")
    terminal.wait_for(DRAWN)
    detach(terminal)
