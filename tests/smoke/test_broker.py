"""The broker and the network may go at any moment: ranks and terminals come back by themselves to the same stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import sit_in_pudb, wait_for_line
from tests.support.ranks import attach, attach_list, start_ranks, wait_until_stopped
from tests.support.straight import LINES, STOP, STRAIGHT
from tests.support.terminal import Terminal


def start_one(processes: Processes, home: Path) -> Child:
    """Start one rank, and return it when it is stopped."""
    (rank,) = start_ranks(processes, home, STRAIGHT, 1)
    wait_until_stopped(home, 1)
    return rank


def let_finish(terminal: Terminal, rank: Child) -> None:
    """Type ``c``; fail unless rank and terminal end, and the rank as if no terminal had been there."""
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text().splitlines()[-1] == f"total {LINES}"
    assert rank.text("stderr").count("\n") == 1, "more than the line about the stop"


def unchanging(ranks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a restart must not change of ranks, in a fixed order."""
    kept = ("address", "job", "run", "pid", "state", "reason", "where", "engine", "world_size", "child")
    return sorted(({name: rank[name] for name in kept} for rank in ranks), key=str)


def test_ranks_and_terminal_return_to_the_same_frame(
    broker: RunningBroker, processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    ranks = start_ranks(processes, home, STRAIGHT, 2)
    wait_until_stopped(home, 2)
    terminal = sit_in_pudb(open_terminal, ":1")
    terminal.send("nnn")
    wait_for_line(terminal, STOP + 3)
    terminal.wait_for("n: 2")
    before = unchanging(attach_list(home))

    broker.kill()
    terminal.wait_for("broker gone")
    broker.restart()

    assert unchanging(wait_until_stopped(home, 2)) == before
    terminal.send("nn")
    wait_for_line(terminal, STOP + 5)
    terminal.wait_for("n: 4")
    let_finish(terminal, ranks[1])
    assert attach(home, "continue", "all", "-y").returncode == 0
    assert [rank.wait() for rank in ranks] == [0] * 2
