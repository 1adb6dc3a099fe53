"""Detaching loses nothing, attaching again shows everything; one terminal types, and the others know which."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dbg_client.attachment.notices import ONLY_WATCH
from dbg_client.core.waiting import WAITING
from tests.conftest import OpenTerminal
from tests.smoke.test_terminal import ME, detach
from tests.support.own_settings import assert_given_back, with_own_settings
from tests.support.processes import Processes
from tests.support.pudb_terminal import (
    DRAWN,
    HELP,
    line_after_all_keys,
    sit_in_pudb,
    wait_for_line,
)
from tests.support.ranks import attach, attach_command, attach_list, start_ranks
from tests.support.stopped_rank import (
    COUNTING,
    COUNTING_STOP,
    nobody_there,
    start_stopped,
    wait_for_list,
    wait_for_status,
    wait_for_whole,
    wait_until_gone,
)
from tests.support.terminal import Terminal

pytestmark = pytest.mark.usefixtures("broker")


def close_window(terminal: Terminal) -> None:
    terminal.close_window()
    assert terminal.exit_status() in (0, -signal.SIGHUP)


def kill(terminal: Terminal) -> None:
    terminal.kill()
    assert terminal.exit_status() == -signal.SIGKILL


def terminate(terminal: Terminal) -> None:
    terminal.signal(signal.SIGTERM)
    assert terminal.exit_status() in (0, 128 + signal.SIGTERM)


@pytest.mark.parametrize("leave", [kill])
def test_the_rank_stays_stopped_and_is_whole_at_another_size(
    leave: Callable[[Terminal], None], processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_stopped(processes, home, COUNTING)
    first = sit_in_pudb(open_terminal, "0", rows=24, cols=80)
    assert attach_list(home)[0]["driver"] == ME
    first.send("nn")
    wait_for_line(first, COUNTING_STOP + 2)
    first.send("?")  # a dialog opens, and stays open
    first.wait_for(HELP)
    leave(first)
    (listed,) = wait_for_list(home, nobody_there)
    assert (listed["state"], listed["where"]["line"], listed["engine"]) == ("stopped", COUNTING_STOP + 2, "pudb")
    assert rank.exit_status is None

    again = sit_in_pudb(open_terminal, "0", rows=35, cols=110)
    again.wait_for(HELP)
    wait_for_whole(again, home)
    assert again.row(-2).startswith(">>>")
    other = sit_in_pudb(open_terminal, "0", "--watch", rows=35, cols=110)
    wait_for_whole(other, home)
    other.end()
    again.send("\x1b")
    wait_until_gone(again, HELP)
    again.send("n")
    wait_for_line(again, COUNTING_STOP + 3)
    again.send("c")
    assert again.exit_status() == 7
    assert rank.wait() == 0
    assert rank.text() == "counted 4\n"


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


def test_follow_goes_to_the_next_stop_and_over_a_relaunch(
    processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    rank = start_stopped(processes, home, COUNTING, env={"STOPS_TWICE": "1"})
    terminal = open_terminal(with_own_settings(tmp_path, attach_command("0", "--follow")))
    terminal.wait_for(DRAWN)
    terminal.send("c")
    terminal.wait_for(WAITING.format(target="0"))
    terminal.send("nnn")  # the terminal is at no rank, so these keys are dropped
    rank.signal(signal.SIGUSR1)
    terminal.wait_for("n: 10")
    assert line_after_all_keys(terminal, home) == COUNTING_STOP
    terminal.send("c")
    assert rank.wait() == 0
    terminal.wait_for(WAITING.format(target="0"))

    again = start_stopped(processes, home, COUNTING)
    terminal.wait_for("n: 0")
    wait_for_line(terminal, COUNTING_STOP)
    wait_for_whole(terminal, home)
    seen = len(terminal.output)
    again.kill()
    terminal.wait_for(lambda terminal: WAITING.format(target="0").encode() in terminal.output[seen:])
    terminal.send("\x03")
    assert terminal.exit_status() == 130
    assert_given_back(terminal, tmp_path)


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
