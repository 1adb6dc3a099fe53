"""Detaching loses nothing, attaching again shows everything; one terminal types, and the others know which."""

from __future__ import annotations

import getpass
import os
import re
import signal
from collections.abc import Callable
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
    rows_of_rank,
    sit_in_pudb,
    wait_for_line,
)
from tests.support.ranks import attach, attach_command, attach_list
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

DETACH, TAKE = "\x1dd", "\x1dw"


def wait_for_notice(terminal: Terminal, text: str, *, since: int) -> None:
    """Wait until the terminal has shown a notice, which may be gone again, after its first ``since`` bytes."""

    def has_shown(terminal: Terminal) -> bool:
        return text.encode() in terminal.output[since:]

    terminal.wait_for(has_shown)


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

    def test_detaching_gives_the_terminal_back_and_says_how_to_come_back(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path
    ) -> None:
        start_stopped(processes, home, COUNTING)
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
        start_stopped(processes, home, COUNTING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("nn" + DETACH)
        assert terminal.exit_status() == 0
        wait_for_list(home, lambda listed: listed[0]["where"]["line"] == COUNTING_STOP + 2)


def has_rung(times: int, terminal: Terminal) -> bool:
    """Tell whether the terminal has rung more often than that."""
    return terminal.output.count(b"\x07") > times


class TestTwoTerminals:
    def test_a_second_one_watches_and_cannot_type(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, COUNTING)
        driver = sit_in_pudb(open_terminal, "0")
        watcher = sit_in_pudb(open_terminal, "0")
        wait_for_status(watcher, f"{ME} types", "Ctrl-] w takes the keyboard")
        for key in ("n", "c", "q", "\x03", "\x04"):
            bells = watcher.output.count(b"\x07")
            watcher.send(key)
            watcher.wait_for(partial(has_rung, bells))
            wait_for_status(watcher, "you only watch; Ctrl-] w takes the keyboard")
        assert line_after_all_keys(driver, home) == COUNTING_STOP
        driver.send("n")
        wait_for_line(driver, COUNTING_STOP + 1)
        watcher.wait_for(lambda terminal: terminal.screen[:-1] == driver.screen[:-1])
        (listed,) = attach_list(home)
        assert (listed["driver"], listed["watchers"]) == (ME, 1)

    def test_one_that_asked_to_watch_is_not_alone_in_that(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, COUNTING)
        watcher = sit_in_pudb(open_terminal, "0", "--watch", rows=20, cols=70)
        wait_for_status(watcher, "watching, nobody types")
        wait_for_whole(watcher, home)
        watcher.send("n")
        wait_for_status(watcher, "you only watch")
        assert (attach_list(home)[0]["driver"], attach_list(home)[0]["where"]["line"]) == (None, COUNTING_STOP)
        seen = len(watcher.output)
        driver = sit_in_pudb(open_terminal, "0", rows=20, cols=70)
        wait_for_notice(watcher, f"{ME} types now", since=seen)
        driver.send("n")
        wait_for_line(driver, COUNTING_STOP + 1)

    @pytest.mark.parametrize(("rows", "cols"), [(16, 60), (40, 140)], ids=["smaller", "larger"])
    def test_a_watcher_of_another_size_sees_no_garbage(
        self, rows: int, cols: int, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, COUNTING)
        driver = sit_in_pudb(open_terminal, "0", rows=24, cols=100)
        watcher = open_terminal(attach_command("0", "--watch"), rows, cols)

        def wait_for_what_fits() -> None:
            # The last column shows what was written there last.
            drawn = [row[: cols - 1].rstrip() for row in rows_of_rank(home, "0")][: rows - 1]
            expected = drawn + [""] * (rows - 1 - len(drawn))
            watcher.wait_for(lambda terminal: [row[: cols - 1].rstrip() for row in terminal.screen[:-1]] == expected)

        wait_for_what_fits()
        watcher.wait_for(lambda terminal: ("  cut off  " in terminal.row(-1)) == (cols < 100))
        driver.send("n")
        wait_for_line(driver, COUNTING_STOP + 1)
        wait_for_what_fits()
        driver.resize(20, 80)
        driver.wait_for(lambda terminal: terminal.row(-2).startswith(">>>"))
        wait_for_what_fits()

    @pytest.mark.parametrize("how", ["--take", TAKE])
    def test_the_keyboard_changes_hands_and_the_former_driver_is_told(
        self, how: str, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, COUNTING)
        former = sit_in_pudb(open_terminal, "0", rows=24, cols=110)
        seen = len(former.output)
        if how == "--take":
            new = sit_in_pudb(open_terminal, "0", "--take", rows=30, cols=120)
        else:
            new = sit_in_pudb(open_terminal, "0", rows=30, cols=120)
            new.send(how)
            wait_for_status(new, "you have the keyboard")
        wait_for_notice(former, f"{ME} took the keyboard", since=seen)
        former.send("n")
        wait_for_status(former, "you only watch; Ctrl-] w takes the keyboard")
        wait_for_whole(new, home)
        assert line_after_all_keys(new, home) == COUNTING_STOP
        new.send("n")
        new.wait_for(re.compile(r"^>\s+n \+= 1", re.MULTILINE))
        assert attach_list(home)[0]["watchers"] == 1
        seen = len(new.output)
        former.send(TAKE)
        wait_for_status(former, "you have the keyboard")
        wait_for_notice(new, f"{ME} took the keyboard", since=seen)
        wait_for_whole(former, home)
        assert line_after_all_keys(former, home) == COUNTING_STOP + 1

    def test_a_watcher_stays_when_the_driver_leaves_and_is_told(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, COUNTING)
        driver = sit_in_pudb(open_terminal, "0")
        watcher = sit_in_pudb(open_terminal, "0", "--watch")
        seen = len(watcher.output)
        detach(driver)
        wait_for_notice(watcher, "nobody types now; Ctrl-] w takes the keyboard", since=seen)
        watcher.send(TAKE)
        wait_for_status(watcher, "you have the keyboard")
        assert line_after_all_keys(watcher, home) == COUNTING_STOP

    def test_a_watchers_token_may_look_and_never_type(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, COUNTING)
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
        assert (listed["driver"], listed["watchers"], listed["where"]["line"]) == (None, 1, COUNTING_STOP)

        taker = open_terminal(attach_command("0", "--take"), 24, 120, env={**os.environ, **token})
        assert taker.exit_status() == 5
        assert "this token may only watch" in taker.row(0)
        for verb in (["continue"], ["kill", "-y"]):
            refused = attach(home, verb[0], "0", *verb[1:], env=token)
            assert refused.returncode == 5, refused
            assert "this token may only watch" in refused.stderr
        assert attach(home, "screen", "0", env=token).returncode == 0
        assert attach(home, "list", env=token).returncode == 0
        assert attach_list(home)[0]["state"] == "stopped"
