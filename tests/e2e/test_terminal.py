"""Detaching loses nothing, attaching again shows everything; one terminal types, and the others know which."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from dbg_client.attachment.notices import ONLY_WATCH
from tests.conftest import OpenTerminal
from tests.smoke.test_terminal import detach
from tests.support.processes import Processes
from tests.support.pudb_terminal import (
    DRAWN,
    HELP,
)
from tests.support.ranks import attach, attach_command, attach_list, start_ranks
from tests.support.stopped_rank import (
    COUNTING,
    COUNTING_STOP,
    start_stopped,
    wait_for_status,
    wait_until_gone,
)
from tests.support.terminal import Terminal

pytestmark = pytest.mark.usefixtures("broker")


def test_a_watchers_token_may_look_and_never_type(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    start_stopped(processes, home, COUNTING)
    token = {"DBG_TOKEN_FILE": str(home / "tokens" / "watcher")}
    watcher = open_terminal(attach_command("0"), 24, 120, env={**os.environ, **token})
    watcher.wait_for(DRAWN)
    wait_for_status(watcher, "watching, nobody types")
    for key in ("n", "c"):
        watcher.send(key)
        wait_for_status(watcher, f"{ONLY_WATCH}  ")
    (listed,) = attach_list(home)
    assert (listed["driver"], listed["watchers"], listed["where"]["line"]) == (None, 1, COUNTING_STOP)

    taker = open_terminal(attach_command("0", "--take"), 24, 120, env={**os.environ, **token})
    assert taker.exit_status() == 5
    for verb in (["continue"], ["kill", "-y"]):
        refused = attach(home, verb[0], "0", *verb[1:], env=token)
        assert refused.returncode == 5, refused
    assert attach(home, "screen", "0", env=token).returncode == 0
    assert attach(home, "list", env=token).returncode == 0
    assert attach_list(home)[0]["state"] == "stopped"


def test_a_running_rank_is_broken_into_if_the_user_agrees(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    (rank,) = start_ranks(processes, home, COUNTING, 1, env={"WAITS_FIRST": "1"})
    terminal = open_terminal(attach_command(), 24, 120)
    terminal.wait_for(re.compile(r":0  running "))
    terminal.send("\r")
    wait_for_status(terminal, "[y/N]")
    terminal.send("n")
    wait_for_status(terminal, "Enter")
    terminal.send("\ry")
    wait_for_status(terminal, "Esc")
    rank.signal(signal.SIGUSR1)  # it waits for that in C code, on return from which it stops
    terminal.wait_for(DRAWN)
    terminal.send("\x1dd")
    assert terminal.exit_status() == 0


def test_the_list_follows_the_ranks_and_enter_attaches(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal(attach_command(), 24, 90)
    terminal.wait_for("dbg-attach adopt")
    ranks = start_ranks(processes, home, COUNTING, 2, env={"WAITS_FIRST": "1"})
    terminal.wait_for(lambda terminal: len(re.findall(r":[01]  running ", "\n".join(terminal.screen))) == 2)
    ranks[1].signal(signal.SIGUSR1)
    terminal.wait_for(re.compile(r":1  stopped +rank_script\.py:9 in counting"))
    terminal.send("/:1\r")
    terminal.wait_for(DRAWN)
    wait_for_status(terminal, ":1  stopped")
    assert line_after_all_keys_of(terminal, home, 1) == COUNTING_STOP
    ranks[0].signal(signal.SIGUSR1)
    wait_for_status(terminal, "1 other stopped")
    detach(terminal)


def line_after_all_keys_of(terminal: Terminal, home: Path, rank: int) -> int:
    """Return the line where this rank is once it has taken all keys of its terminal."""
    terminal.send("?")
    terminal.wait_for(HELP)
    terminal.send("\x1b")
    wait_until_gone(terminal, HELP)
    line: int = next(listed for listed in attach_list(home) if listed["rank"] == rank)["where"]["line"]
    return line
