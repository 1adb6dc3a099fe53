"""Detaching loses nothing, one terminal types, and at every end the terminal shows how it ended and is restored."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from dbg_client.seat.notices import ONLY_WATCH
from tests.conftest import OpenTerminal
from tests.smoke.test_endings import (
    attach_with_own_settings,
    ended,
    start_one,
)
from tests.support.processes import Processes
from tests.support.pudb_terminal import (
    DRAWN,
    HELP,
    line_after_all_keys,
    sit_in_pudb,
    wait_for_line,
)
from tests.support.ranks import attach, attach_command, attach_list, start_ranks
from tests.support.sessions import detach
from tests.support.stopped_rank import (
    COUNTING,
    COUNTING_STOP,
    start_stopped,
    wait_for_status,
    wait_until_gone,
)
from tests.support.terminal import Terminal

pytestmark = pytest.mark.usefixtures("broker")


def test_a_watcher_token_can_watch_but_never_type(
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


def test_the_picker_follows_the_ranks_and_enter_attaches(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    terminal = open_terminal(attach_command(), 24, 90)
    terminal.wait_for("dbg-attach adopt")
    ranks = start_ranks(processes, home, COUNTING, 2, env={"WAITS_FIRST": "1"})
    terminal.wait_for(lambda terminal: len(re.findall(r":[01]  running ", "\n".join(terminal.screen))) == 2)
    ranks[1].signal(signal.SIGUSR1)
    terminal.wait_for(re.compile(r":1  stopped +rank_script\.py:9 in counting"))
    terminal.send(":1\r")
    terminal.wait_for(DRAWN)
    wait_for_status(terminal, ":1  stopped")
    assert line_after_all_keys_of(terminal, home, 1) == COUNTING_STOP
    ranks[0].signal(signal.SIGUSR1)
    wait_for_status(terminal, "others: 1 stopped")
    detach(terminal)


def line_after_all_keys_of(terminal: Terminal, home: Path, rank: int) -> int:
    """Return the line where this rank is once it has taken all keys of its terminal."""
    terminal.send("?")
    terminal.wait_for(HELP)
    terminal.send("\x1b")
    wait_until_gone(terminal, HELP)
    line: int = next(listed for listed in attach_list(home) if listed["rank"] == rank)["where"]["line"]
    return line


STOP = 7
"""Line of the ``set_trace()`` call."""


def silence(terminal: Terminal) -> int:
    """Return the seconds of silence that the status line shows; 0 if it shows none."""
    found = re.search(r":0  silent for (\d+) s ", terminal.row(-1))
    return int(found[1]) if found else 0


def test_the_terminal_of_a_silent_rank_shows_the_seconds_and_continues(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_one(processes, home)
    terminal = sit_in_pudb(open_terminal, "0")
    rank.signal(signal.SIGSTOP)
    terminal.wait_for(silence)
    assert DRAWN in "\n".join(terminal.screen)
    assert attach_list(home)[0]["state"] == "unresponsive"
    seconds_shown = silence(terminal)
    terminal.wait_for(lambda terminal: silence(terminal) > seconds_shown)
    terminal.send("n")
    rank.signal(signal.SIGCONT)
    wait_for_line(terminal, STOP + 1)
    assert line_after_all_keys(terminal, home) == STOP + 1
    terminal.send("c")
    assert terminal.exit_status() == 7
    assert rank.wait() == 0


def test_exit_status_is_7_when_a_rank_continues(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    rank = start_one(processes, home, WAITS="1")
    terminal = attach_with_own_settings(open_terminal, home)
    assert attach(home, "continue", "0").returncode == 0
    status, message = ended(terminal, home)
    assert status == 7
    assert re.match(r'[a-z0-9-]+:0 resumed: "[^"]+@[^"]+" ', message)
    rank.signal(signal.SIGUSR1)
    assert rank.wait() == 0
