"""The PuDB of a rank in a real terminal: whole at every size, its keys work, and the keyboard changes hands."""

from __future__ import annotations

import getpass
import os
import re
from pathlib import Path

import pytest

from dbg_client.seat.notices import HAS_KEYBOARD, ONLY_WATCH, who_types
from tests.conftest import OpenTerminal
from tests.support.own_settings import assert_given_back, with_own_settings
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN, line_after_all_keys, sit_in_pudb, wait_for_line
from tests.support.ranks import attach_command, attach_list
from tests.support.stopped_rank import (
    COUNTING,
    COUNTING_STOP,
    SCALED,
    WORD,
    WORKING,
    WORKING_STOP,
    let_end,
    start_stopped,
    wait_for_status,
    wait_for_whole,
    wait_until_gone,
)
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

pytestmark = pytest.mark.usefixtures("broker")

AT_ONCE = seconds(3)
"""Seconds: longer than a busy machine stalls, shorter than users wait before they resize again."""


def test_pudb_fills_the_terminal_except_the_status_line(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    start_stopped(processes, home, WORKING)
    terminal = sit_in_pudb(open_terminal, "0", rows=24, cols=80)
    wait_for_whole(terminal, home)
    assert terminal.row(0).startswith("PuDB 20")
    assert terminal.row(-2).startswith(">>>")
    # The status line is drawn by itself, after the rank's screen.
    terminal.wait_for(re.compile(r"^ [a-z0-9-]+:0  stopped .*Ctrl-\] d", re.MULTILINE))
    assert "Ctrl-] d" in terminal.row(-1)
    assert max(map(len, terminal.screen)) > 64
    assert WORD[:8] in "".join(terminal.screen)
    assert "Welcome" not in terminal.output.decode()


def is_drawn(terminal: Terminal) -> bool:
    return terminal.row(0).startswith("PuDB") and terminal.row(-2).startswith(">>>") and "stopped" in terminal.row(-1)


def test_pudb_is_redrawn_at_once_after_a_resize(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    start_stopped(processes, home, WORKING)
    terminal = sit_in_pudb(open_terminal, "0")
    for rows, cols in ((40, 132), (20, 60), (24, 80)):
        terminal.resize(rows, cols)
        terminal.wait_for(is_drawn, AT_ONCE)
        wait_for_whole(terminal, home)


def test_the_session_ends_and_restores_the_terminal_when_no_breakpoint_is_left(
    processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    rank = start_stopped(processes, home, WORKING)
    terminal = open_terminal(with_own_settings(tmp_path, attach_command("0")))
    terminal.wait_for(DRAWN)
    let_end(terminal, rank)
    assert_given_back(terminal, tmp_path)
    shown = [row for row in terminal.screen if row]
    assert len(shown) == 2
    assert re.fullmatch(r"Attached to [a-z0-9-]+:0 \(PuDB\)\. Ctrl-\] d detaches, Ctrl-\] \? helps\.", shown[0])
    assert re.match(r"[a-z0-9-]+:0 resumed\b", shown[1])


ME = f"{getpass.getuser()}@{os.uname().nodename.partition('.')[0]}"
"""The name of this test's user as other terminals at a rank show it."""

TAKEN = who_types(ME, driving=False, how_to_take="")
"""The news to whom the keyboard was taken from."""

TAKE = "\x1dw"


def wait_for_notice(terminal: Terminal, text: str, *, since: int) -> None:
    """Wait until the terminal has shown a notice, which may be gone again, after its first ``since`` bytes."""

    def has_shown(terminal: Terminal) -> bool:
        return text.encode() in terminal.output[since:]

    terminal.wait_for(has_shown)


def test_the_keyboard_changes_hands_and_the_former_driver_is_notified(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    start_stopped(processes, home, COUNTING)
    former = sit_in_pudb(open_terminal, "0", rows=24, cols=110)
    seen = len(former.output)
    new = sit_in_pudb(open_terminal, "0", rows=30, cols=120)
    new.send(TAKE)
    wait_for_status(new, HAS_KEYBOARD)
    wait_for_notice(former, TAKEN, since=seen)
    former.send("n")
    wait_for_status(former, ONLY_WATCH)
    wait_for_whole(new, home)
    assert line_after_all_keys(new, home) == COUNTING_STOP
    new.send("n")
    new.wait_for(re.compile(r"^>\s+n \+= 1", re.MULTILINE))
    assert attach_list(home)[0]["watchers"] == 1
    seen = len(new.output)
    former.send(TAKE)
    wait_for_status(former, HAS_KEYBOARD)
    wait_for_notice(new, TAKEN, since=seen)
    wait_for_whole(former, home)
    assert line_after_all_keys(former, home) == COUNTING_STOP + 1


def test_steps_breakpoints_and_expressions_work(processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
    rank = start_stopped(processes, home, WORKING)
    terminal = sit_in_pudb(open_terminal, "0")
    terminal.send("n")
    wait_for_line(terminal, WORKING_STOP + 1)
    terminal.send("s")
    terminal.wait_for(re.compile(r">> scaled"))
    terminal.send("n")
    wait_for_line(terminal, SCALED)
    terminal.wait_for("number: 4")
    terminal.send("!number * 1000 + 2\r")
    terminal.wait_for(re.compile(r"^4002$", re.MULTILINE))
    terminal.send("number = 5\r\x18n")
    terminal.wait_for("result: 50")
    terminal.send("nn")
    terminal.wait_for("a: 50")
    wait_for_line(terminal, WORKING_STOP + 2)
    # A breakpoint is set two lines down, where `c` stops.
    terminal.send("jjb")
    terminal.wait_for(re.compile(r"rank_script\.py:17"))
    terminal.send("c")
    terminal.wait_for("c: 52")
    assert line_after_all_keys(terminal, home) == WORKING_STOP + 4
    terminal.send("b")
    wait_until_gone(terminal, "rank_script.py:17 (")
    let_end(terminal, rank, result=54)
