"""Leaving is safe and coming back is whole; who types is one terminal, and the others know which."""

from __future__ import annotations

import getpass
import os
import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OpenTerminal
from tests.support.broker import RunningBroker, running_broker
from tests.support.own_settings import assert_given_back, with_own_settings
from tests.support.processes import Child, Processes
from tests.support.pudb_terminal import (
    DRAWN,
    line_after_all_keys,
    rows_of_rank,
    sit_in_pudb,
    wait_for_line,
)
from tests.support.pudb_terminal import (
    HELP as PUDB_HELP,
)
from tests.support.ranks import attach, attach_command, attach_list, start_ranks, wait_until_stopped
from tests.support.terminal import Terminal

pytestmark = pytest.mark.integration

SCRIPT = """\
import os, signal
import dbg_agent
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
dbg_agent.install()
if "WAITS_FIRST" in os.environ:
    signal.sigwait({signal.SIGUSR1})

def counting(n):
    dbg_agent.set_trace()
    n += 1
    n += 1
    n += 1
    n += 1
    return n

print("counted", counting(0), flush=True)
if "STOPS_TWICE" in os.environ:
    signal.sigwait({signal.SIGUSR1})
    print("counted", counting(10), flush=True)
"""

STOP = 9
"""Line of the ``set_trace()`` call; four more lines count."""

ME = f"{getpass.getuser()}@{os.uname().nodename.partition('.')[0]}"

DETACH, TAKE, NEXT, PREVIOUS, PICK = "\x1dd", "\x1dw", "\x1dn", "\x1dp", "\x1dr"


@pytest.fixture(autouse=True)
def broker(processes: Processes, home: Path) -> RunningBroker:
    return running_broker(processes, home)


def start_one(processes: Processes, home: Path, *variables: str) -> Child:
    """Start one rank and return it when it is stopped."""
    (rank,) = start_ranks(processes, home, SCRIPT, 1, env=dict.fromkeys(variables, "1"))
    wait_until_stopped(home, 1)
    return rank


def wait_for_list(home: Path, expected: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Return what ``--list`` says as soon as it satisfies a predicate; the test's own time-out ends this."""
    while not expected(listed := attach_list(home)):
        pass
    return listed


def nobody_there(listed: list[dict[str, Any]]) -> bool:
    return [(rank["driver"], rank["watchers"]) for rank in listed] == [(None, 0)] * len(listed)


def wait_for_whole(terminal: Terminal, home: Path, target: str = "0") -> None:
    """Wait until the terminal, but for its status line, shows what the rank has drawn, and nothing else."""
    expected = rows_of_rank(home, target)
    terminal.wait_for(lambda terminal: terminal.screen[:-1] == expected)


def wait_for_status(terminal: Terminal, *words: str) -> None:
    """Wait until the status line has all these words."""
    terminal.wait_for(lambda terminal: all(word in terminal.row(-1) for word in words))


def detach(terminal: Terminal) -> None:
    terminal.send(DETACH)
    assert terminal.exit_status() == 0


def close_window(terminal: Terminal) -> None:
    terminal.close_window()
    assert terminal.exit_status() in (0, -signal.SIGHUP)


def kill(terminal: Terminal) -> None:
    terminal.kill()
    assert terminal.exit_status() == -signal.SIGKILL


def terminate(terminal: Terminal) -> None:
    terminal.signal(signal.SIGTERM)
    assert terminal.exit_status() in (0, 128 + signal.SIGTERM)


class TestLeaving:
    @pytest.mark.parametrize("leave", [detach, close_window, kill, terminate])
    def test_the_rank_stays_stopped_and_is_whole_at_another_size(
        self, leave: Callable[[Terminal], None], processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_one(processes, home)
        first = sit_in_pudb(open_terminal, "0", rows=24, cols=80)
        assert attach_list(home)[0]["driver"] == ME
        first.send("nn")
        wait_for_line(first, STOP + 2)
        first.send("?")  # a dialog is open, and stays so
        first.wait_for(PUDB_HELP)
        leave(first)
        (listed,) = wait_for_list(home, nobody_there)
        assert (listed["state"], listed["where"]["line"], listed["engine"]) == ("stopped", STOP + 2, "pudb")
        assert rank.exit_status is None

        again = sit_in_pudb(open_terminal, "0", rows=35, cols=110)
        again.wait_for(PUDB_HELP)
        wait_for_whole(again, home)
        assert again.row(-2).startswith(">>>")
        other = sit_in_pudb(open_terminal, "0", "--watch", rows=35, cols=110)
        wait_for_whole(other, home)
        other.end()
        again.send("\x1b")
        again.wait_for(lambda terminal: PUDB_HELP not in "\n".join(terminal.screen))
        again.send("n")
        wait_for_line(again, STOP + 3)
        again.send("c")
        assert again.exit_status() == 7
        assert rank.wait() == 0
        assert rank.text() == "counted 4\n"

    def test_detaching_gives_the_terminal_back_and_says_how_to_come_back(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path
    ) -> None:
        start_one(processes, home)
        terminal = open_terminal(with_own_settings(tmp_path, attach_command("0")))
        terminal.wait_for(DRAWN)
        detach(terminal)
        assert_given_back(terminal, tmp_path)
        shown = [row for row in terminal.screen if row]
        assert re.match(r"Attached to .*:0 \(PuDB\)\. Ctrl-\] d detaches", shown[0])
        assert re.match(r"Detached from .*:0, which stays as it is; `dbg-attach .*:0` comes back\.", shown[1])

    def test_keys_typed_just_before_leaving_are_taken(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_one(processes, home)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("nn" + DETACH)
        assert terminal.exit_status() == 0
        wait_for_list(home, lambda listed: listed[0]["where"]["line"] == STOP + 2)


def has_rung(times: int, terminal: Terminal) -> bool:
    """Tell whether the terminal has rung more often than that."""
    return terminal.output.count(b"\x07") > times


class TestTwoTerminals:
    def test_a_second_one_watches_and_cannot_type(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_one(processes, home)
        driver = sit_in_pudb(open_terminal, "0")
        watcher = sit_in_pudb(open_terminal, "0")
        wait_for_status(watcher, f"{ME} types", "Ctrl-] w takes the keyboard")
        for key in ("n", "c", "q", "\x03", "\x04"):
            bells = watcher.output.count(b"\x07")
            watcher.send(key)
            watcher.wait_for(partial(has_rung, bells))
            wait_for_status(watcher, "you only watch; Ctrl-] w takes the keyboard")
        assert line_after_all_keys(driver, home) == STOP
        driver.send("n")
        wait_for_line(driver, STOP + 1)
        watcher.wait_for(lambda terminal: terminal.screen[:-1] == driver.screen[:-1])
        (listed,) = attach_list(home)
        assert (listed["driver"], listed["watchers"]) == (ME, 1)

    def test_one_that_asked_to_watch_is_not_alone_in_that(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_one(processes, home)
        watcher = sit_in_pudb(open_terminal, "0", "--watch", rows=20, cols=70)
        wait_for_status(watcher, "watching, nobody types")
        wait_for_whole(watcher, home)
        watcher.send("n")
        wait_for_status(watcher, "you only watch")
        assert (attach_list(home)[0]["driver"], attach_list(home)[0]["where"]["line"]) == (None, STOP)
        driver = sit_in_pudb(open_terminal, "0", rows=20, cols=70)
        wait_for_status(watcher, f"{ME} types now")
        driver.send("n")
        wait_for_line(driver, STOP + 1)

    @pytest.mark.parametrize(("rows", "cols"), [(16, 60), (40, 140)], ids=["smaller", "larger"])
    def test_a_watcher_of_another_size_sees_no_garbage(
        self, rows: int, cols: int, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_one(processes, home)
        driver = sit_in_pudb(open_terminal, "0", rows=24, cols=100)
        watcher = open_terminal(attach_command("0", "--watch"), rows, cols)

        def wait_for_what_fits() -> None:
            # In the last column stands whatever was written there last.
            drawn = [row[: cols - 1].rstrip() for row in rows_of_rank(home, "0")][: rows - 1]
            expected = drawn + [""] * (rows - 1 - len(drawn))
            watcher.wait_for(lambda terminal: [row[: cols - 1].rstrip() for row in terminal.screen[:-1]] == expected)

        wait_for_what_fits()
        watcher.wait_for(lambda terminal: ("  cut off  " in terminal.row(-1)) == (cols < 100))
        driver.send("n")
        wait_for_line(driver, STOP + 1)
        wait_for_what_fits()
        driver.resize(20, 80)
        driver.wait_for(lambda terminal: terminal.row(-2).startswith(">>>"))
        wait_for_what_fits()

    @pytest.mark.parametrize("how", ["--take", TAKE])
    def test_the_keyboard_changes_hands_and_the_former_driver_is_told(
        self, how: str, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_one(processes, home)
        former = sit_in_pudb(open_terminal, "0", rows=24, cols=110)
        if how == "--take":
            new = sit_in_pudb(open_terminal, "0", "--take", rows=30, cols=120)
        else:
            new = sit_in_pudb(open_terminal, "0", rows=30, cols=120)
            new.send(how)
            wait_for_status(new, "you have the keyboard")
        wait_for_status(former, f"{ME} took the keyboard")
        former.send("n")
        wait_for_status(former, "you only watch; Ctrl-] w takes the keyboard")
        wait_for_whole(new, home)
        assert line_after_all_keys(new, home) == STOP
        new.send("n")
        new.wait_for(re.compile(r"^>\s+n \+= 1", re.MULTILINE))
        assert attach_list(home)[0]["watchers"] == 1
        former.send(TAKE)
        wait_for_status(former, "you have the keyboard")
        wait_for_status(new, f"{ME} took the keyboard")
        wait_for_whole(former, home)
        assert line_after_all_keys(former, home) == STOP + 1

    def test_a_watcher_stays_when_the_driver_leaves_and_is_told(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_one(processes, home)
        driver = sit_in_pudb(open_terminal, "0")
        watcher = sit_in_pudb(open_terminal, "0", "--watch")
        detach(driver)
        wait_for_status(watcher, "nobody types now; Ctrl-] w takes the keyboard")
        watcher.send(TAKE)
        wait_for_status(watcher, "you have the keyboard")
        assert line_after_all_keys(watcher, home) == STOP

    def test_a_watchers_token_may_look_and_never_type(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_one(processes, home)
        token = {"DBG_TOKEN_FILE": str(home / "tokens" / "watcher")}
        watcher = open_terminal(attach_command("0"), 24, 120, env={**os.environ, **token})
        watcher.wait_for(DRAWN)
        wait_for_status(watcher, "watching, nobody types")
        for key in ("n", "c"):
            watcher.send(key)
            wait_for_status(watcher, "you only watch  ")
        watcher.send(TAKE)
        wait_for_status(watcher, "this token may only watch")
        (listed,) = attach_list(home)
        assert (listed["driver"], listed["watchers"], listed["where"]["line"]) == (None, 1, STOP)

        taker = open_terminal(attach_command("0", "--take"), 24, 120, env={**os.environ, **token})
        assert taker.exit_status() == 5
        assert "this token may only watch" in taker.row(0)
        for verb in (["--continue"], ["--kill", "-y"]):
            refused = attach(home, "0", *verb, env=token)
            assert refused.returncode == 5, refused
            assert "this token may only watch" in refused.stderr
        assert attach(home, "0", "--screen", env=token).returncode == 0
        assert attach(home, "--list", env=token).returncode == 0
        assert attach_list(home)[0]["state"] == "stopped"


class TestWaiting:
    def test_follow_goes_to_the_next_stop_and_over_a_relaunch(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path
    ) -> None:
        rank = start_one(processes, home, "STOPS_TWICE")
        terminal = open_terminal(with_own_settings(tmp_path, attach_command("0", "--follow")))
        terminal.wait_for(DRAWN)
        terminal.send("c")
        terminal.wait_for(re.compile(r":0 went on\.\nWaiting for 0 to stop; Ctrl-C gives up\."))
        terminal.send("nnn")  # meant for nobody, and dropped
        rank.signal(signal.SIGUSR1)
        terminal.wait_for("n: 10")
        assert line_after_all_keys(terminal, home) == STOP
        terminal.send("c")
        assert rank.wait() == 0
        terminal.wait_for("Waiting for 0 to stop")

        again = start_one(processes, home)
        terminal.wait_for("n: 0")
        wait_for_line(terminal, STOP)
        wait_for_whole(terminal, home)
        again.kill()
        terminal.wait_for(re.compile(r":0 died.*\nWaiting for 0 to stop"))
        terminal.send("\x03")
        assert terminal.exit_status() == 130
        assert_given_back(terminal, tmp_path)

    def test_wait_attaches_once_the_rank_stops(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        early = open_terminal(attach_command("--wait", "0"))
        early.wait_for("Waiting for 0 to stop; Ctrl-C gives up.")
        (rank,) = start_ranks(processes, home, SCRIPT, 1, env={"WAITS_FIRST": "1"})
        wait_for_list(home, lambda listed: [rank["state"] for rank in listed] == ["running"])
        late = open_terminal(attach_command("--wait", "0"))
        late.wait_for("Waiting for 0 to stop")
        rank.signal(signal.SIGUSR1)
        for terminal in (early, late):
            terminal.wait_for("n: 0")
        assert attach_list(home)[0]["driver"] == ME

    def test_detaching_ends_following(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_one(processes, home)
        terminal = sit_in_pudb(open_terminal, "0", "--follow")
        detach(terminal)
        assert "Detached from" in "\n".join(terminal.screen)


class TestPicking:
    def test_the_list_follows_the_ranks_and_enter_attaches(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        terminal = open_terminal(attach_command(), 24, 90)
        terminal.wait_for("No rank has connected to the broker")
        ranks = start_ranks(processes, home, SCRIPT, 2, env={"WAITS_FIRST": "1"})
        terminal.wait_for(lambda terminal: len(re.findall(r":[01]  running ", "\n".join(terminal.screen))) == 2)
        ranks[1].signal(signal.SIGUSR1)
        terminal.wait_for(re.compile(r":1  stopped +rank_script\.py:9 in counting"))
        terminal.send("/:1\r")
        terminal.wait_for(DRAWN)
        assert re.match(r" .*:1  stopped", terminal.row(-1))
        assert line_after_all_keys_of(terminal, home, 1) == STOP
        ranks[0].signal(signal.SIGUSR1)
        wait_for_status(terminal, "1 other stopped")
        detach(terminal)

    @pytest.mark.parametrize(("key", "status"), [("\x1b", 0), ("q", 0), ("\x03", 130)])
    def test_leaving_the_list(
        self, key: str, status: int, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_one(processes, home)
        terminal = open_terminal(with_own_settings(home, attach_command()))
        terminal.wait_for(re.compile(r":0  stopped "))
        terminal.send(key)
        assert terminal.exit_status() == status
        assert_given_back(terminal, home)
        assert nobody_there(attach_list(home))

    def test_a_running_rank_is_not_attached_to(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_ranks(processes, home, SCRIPT, 1, env={"WAITS_FIRST": "1"})
        terminal = open_terminal(attach_command(), 24, 90)
        terminal.wait_for(re.compile(r":0  running "))
        terminal.send("\r")
        wait_for_status(terminal, "is running; it can be attached to when it stops")
        terminal.send("q")
        assert terminal.exit_status() == 0


def line_after_all_keys_of(terminal: Terminal, home: Path, rank: int) -> int:
    """Return the line where this rank is once the terminal at it has had all its keys taken."""
    terminal.send("?")
    terminal.wait_for(PUDB_HELP)
    terminal.send("\x1b")
    terminal.wait_for(lambda terminal: PUDB_HELP not in "\n".join(terminal.screen))
    line: int = next(listed for listed in attach_list(home) if listed["rank"] == rank)["where"]["line"]
    return line


def shows_another(address: str, terminal: Terminal) -> bool:
    """Tell whether the status line is that of another rank than of the one with this address."""
    return terminal.row(-1).split()[:1] not in ([address], [])


class TestPrefix:
    def test_n_and_p_go_around_the_stopped_ranks(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_ranks(processes, home, SCRIPT, 3)
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
        assert {rank["rank"]: rank["where"]["line"] for rank in attach_list(home)} == {0: STOP, 1: STOP, 2: STOP + 1}

    def test_n_alone_says_that_there_is_no_other(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_one(processes, home)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send(NEXT)
        wait_for_status(terminal, "no other rank of this job is stopped")
        assert line_after_all_keys(terminal, home) == STOP

    def test_help_covers_the_screen_and_gives_it_back(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_one(processes, home)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("\x1d")
        wait_for_status(terminal, "Ctrl-], then: d detach")
        terminal.send("?")
        terminal.wait_for("detach: the rank stays as it is")
        assert DRAWN not in "\n".join(terminal.screen)
        terminal.send("n")  # goes back, and is no step
        terminal.wait_for(DRAWN)
        wait_for_whole(terminal, home)
        assert line_after_all_keys(terminal, home) == STOP

    def test_an_unknown_key_shows_the_help_and_never_reaches_the_rank(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_one(processes, home)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("\x1dc")
        terminal.wait_for("Any key goes back.")
        terminal.send(" ")
        terminal.wait_for(DRAWN)
        assert line_after_all_keys(terminal, home) == STOP

    def test_r_picks_another_rank(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_ranks(processes, home, SCRIPT, 2)
        wait_until_stopped(home, 2)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send(PICK)
        terminal.wait_for("Pick a rank to attach to")
        terminal.send("\x1b")
        terminal.wait_for(DRAWN)
        wait_for_whole(terminal, home)
        assert re.match(r" .*:0  stopped", terminal.row(-1))
        terminal.send(PICK + "j\rn")
        wait_for_status(terminal, "attached to", ":1")
        terminal.wait_for(re.compile(r"^>\s+n \+= 1", re.MULTILINE))
        wait_for_whole(terminal, home, "1")
        assert {rank["rank"]: rank["where"]["line"] for rank in attach_list(home)} == {0: STOP, 1: STOP + 1}

    def test_another_prefix_key(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_one(processes, home)
        terminal = sit_in_pudb(open_terminal, "0", "--escape", "^\\")
        wait_for_status(terminal, "Ctrl-\\ d detaches")
        terminal.send(DETACH)  # goes to PuDB: Ctrl-] is nothing to it, and `d` goes down a frame
        assert line_after_all_keys(terminal, home) == STOP
        terminal.send("\x1cd")
        assert terminal.exit_status() == 0
