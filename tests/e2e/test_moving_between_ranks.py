"""From rank to rank in one terminal: waiting, following, picking from the list, and the keys after the prefix."""

from __future__ import annotations

import getpass
import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.own_settings import assert_given_back, with_own_settings
from tests.support.processes import Processes
from tests.support.pudb_terminal import (
    DRAWN,
    HELP,
    line_after_all_keys,
    sit_in_pudb,
    wait_for_line,
)
from tests.support.ranks import attach_command, attach_list, start_ranks, wait_until_stopped
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

ME = f"{getpass.getuser()}@{os.uname().nodename.partition('.')[0]}"
"""The name of this test's user as other terminals at a rank show it."""

DETACH, NEXT, PREVIOUS, PICK = "\x1dd", "\x1dn", "\x1dp", "\x1dr"


def detach(terminal: Terminal) -> None:
    terminal.send(DETACH)
    assert terminal.exit_status() == 0


class TestWaiting:
    def test_follow_goes_to_the_next_stop_and_over_a_relaunch(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path
    ) -> None:
        rank = start_stopped(processes, home, COUNTING, env={"STOPS_TWICE": "1"})
        terminal = open_terminal(with_own_settings(tmp_path, attach_command("0", "--follow")))
        terminal.wait_for(DRAWN)
        terminal.send("c")
        terminal.wait_for(re.compile(r":0 went on\.\nWaiting for 0 to stop; Ctrl-C gives up\."))
        terminal.send("nnn")  # the terminal is at no rank, so these keys are dropped
        rank.signal(signal.SIGUSR1)
        terminal.wait_for("n: 10")
        assert line_after_all_keys(terminal, home) == COUNTING_STOP
        terminal.send("c")
        assert rank.wait() == 0
        terminal.wait_for("Waiting for 0 to stop")

        again = start_stopped(processes, home, COUNTING)
        terminal.wait_for("n: 0")
        wait_for_line(terminal, COUNTING_STOP)
        wait_for_whole(terminal, home)
        again.kill()
        # Either the guard first says how the rank ended, or the broker first sees that the rank is gone.
        terminal.wait_for(re.compile(r":0 (died|was killed by SIGKILL).*\nWaiting for 0 to stop"))
        terminal.send("\x03")
        assert terminal.exit_status() == 130
        assert_given_back(terminal, tmp_path)

    def test_wait_attaches_once_the_rank_stops(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        early = open_terminal(attach_command("wait", "0"))
        early.wait_for("Waiting for 0 to stop; Ctrl-C gives up.")
        (rank,) = start_ranks(processes, home, COUNTING, 1, env={"WAITS_FIRST": "1"})
        wait_for_list(home, lambda listed: [rank["state"] for rank in listed] == ["running"])
        late = open_terminal(attach_command("wait", "0"))
        late.wait_for("Waiting for 0 to stop")
        rank.signal(signal.SIGUSR1)
        for terminal in (early, late):
            terminal.wait_for("n: 0")
        assert attach_list(home)[0]["driver"] == ME

    def test_detaching_ends_following(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_stopped(processes, home, COUNTING)
        terminal = sit_in_pudb(open_terminal, "0", "--follow")
        detach(terminal)
        assert "Detached from" in "\n".join(terminal.screen)


class TestPicking:
    def test_the_list_follows_the_ranks_and_enter_attaches(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        terminal = open_terminal(attach_command(), 24, 90)
        terminal.wait_for("No rank is connected to the broker")
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

    @pytest.mark.parametrize(("key", "status"), [("\x1b", 0), ("q", 0), ("\x03", 130)])
    def test_leaving_the_list(
        self, key: str, status: int, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, COUNTING)
        terminal = open_terminal(with_own_settings(home, attach_command()))
        terminal.wait_for(re.compile(r":0  stopped "))
        terminal.send(key)
        assert terminal.exit_status() == status
        assert_given_back(terminal, home)
        assert nobody_there(attach_list(home))

    def test_a_running_rank_is_broken_into_if_the_user_agrees(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        (rank,) = start_ranks(processes, home, COUNTING, 1, env={"WAITS_FIRST": "1"})
        terminal = open_terminal(attach_command(), 24, 120)
        terminal.wait_for(re.compile(r":0  running "))
        terminal.send("\r")
        wait_for_status(terminal, "is running. Break in and attach? [y/N]")
        terminal.send("n")
        wait_for_status(terminal, "is running; Enter breaks in")
        terminal.send("\ry")
        wait_for_status(terminal, "breaking into", "Esc gives up")
        rank.signal(signal.SIGUSR1)  # it waits for that in C code, on return from which it stops
        terminal.wait_for(DRAWN)
        terminal.send("\x1dd")
        assert terminal.exit_status() == 0


def line_after_all_keys_of(terminal: Terminal, home: Path, rank: int) -> int:
    """Return the line where this rank is once it has taken all keys of its terminal."""
    terminal.send("?")
    terminal.wait_for(HELP)
    terminal.send("\x1b")
    wait_until_gone(terminal, HELP)
    line: int = next(listed for listed in attach_list(home) if listed["rank"] == rank)["where"]["line"]
    return line


def shows_another(address: str, terminal: Terminal) -> bool:
    """Tell whether the status line shows another rank than the one at ``address``."""
    return terminal.row(-1).split()[:1] not in ([address], [])


class TestPrefix:
    def test_n_and_p_go_around_the_stopped_ranks(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_ranks(processes, home, COUNTING, 3)
        wait_until_stopped(home, 3)
        terminal = sit_in_pudb(open_terminal, "1")
        visited = []
        for key in (NEXT, NEXT, NEXT, PREVIOUS, PREVIOUS):
            before = terminal.row(-1).split()[0]
            terminal.send(key)
            terminal.wait_for(partial(shows_another, before))
            wait_for_status(terminal, "attached to")
            visited.append(terminal.row(-1).split()[0].partition(":")[2])
        assert visited == ["2", "0", "1", "0", "2"]
        wait_for_whole(terminal, home, "2")
        listed = {rank["rank"]: rank["driver"] for rank in attach_list(home)}
        assert listed == {0: None, 1: None, 2: ME}
        terminal.send("n")
        terminal.wait_for(re.compile(r"^>\s+n \+= 1", re.MULTILINE))
        assert {rank["rank"]: rank["where"]["line"] for rank in attach_list(home)} == {
            0: COUNTING_STOP,
            1: COUNTING_STOP,
            2: COUNTING_STOP + 1,
        }

    def test_n_alone_says_that_there_is_no_other(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, COUNTING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send(NEXT)
        wait_for_status(terminal, "no other rank of this job is stopped")
        assert line_after_all_keys(terminal, home) == COUNTING_STOP

    def test_help_covers_the_screen_and_gives_it_back(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, COUNTING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("\x1d")
        wait_for_status(terminal, "Ctrl-], then: d detach")
        terminal.send("?")
        terminal.wait_for("detach: the rank stays as it is")
        wait_until_gone(terminal, DRAWN)
        terminal.send("n\x1b")  # the help drops the first one, which is no step
        terminal.wait_for(DRAWN)
        wait_for_whole(terminal, home)
        assert line_after_all_keys(terminal, home) == COUNTING_STOP

    def test_an_unknown_key_shows_the_help_and_never_reaches_the_rank(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, COUNTING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("\x1dc")
        terminal.wait_for("q goes back")
        terminal.send("q")
        terminal.wait_for(DRAWN)
        assert line_after_all_keys(terminal, home) == COUNTING_STOP

    def test_r_picks_another_rank(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_ranks(processes, home, COUNTING, 2)
        wait_until_stopped(home, 2)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send(PICK)
        terminal.wait_for("Pick a rank to attach to")
        terminal.send("\x1b")
        terminal.wait_for(DRAWN)
        wait_for_whole(terminal, home)
        wait_for_status(terminal, ":0  stopped")
        terminal.send(PICK + "j\rn")
        wait_for_status(terminal, "attached to", ":1")
        terminal.wait_for(re.compile(r"^>\s+n \+= 1", re.MULTILINE))
        wait_for_whole(terminal, home, "1")
        assert {rank["rank"]: rank["where"]["line"] for rank in attach_list(home)} == {
            0: COUNTING_STOP,
            1: COUNTING_STOP + 1,
        }

    def test_another_prefix_key(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_stopped(processes, home, COUNTING)
        terminal = sit_in_pudb(open_terminal, "0", "--escape", "^\\")
        wait_for_status(terminal, "Ctrl-\\ d detaches")
        terminal.send(DETACH)  # goes to PuDB: Ctrl-] is nothing to it, and `d` goes down a frame
        assert line_after_all_keys(terminal, home) == COUNTING_STOP
        terminal.send("\x1cd")
        assert terminal.exit_status() == 0
