"""The PuDB of a rank in a real terminal: whole at every size, in its colours, over steps, stops and endings."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.own_settings import assert_given_back, with_own_settings
from tests.support.processes import Processes
from tests.support.pudb_terminal import (
    DRAWN,
    rows_of_rank,
    sit_in_pudb,
    wait_for_line,
)
from tests.support.ranks import attach_command, start_ranks, wait_until_stopped
from tests.support.stopped_rank import (
    PAUSE,
    WORD,
    WORKING,
    WORKING_STOP,
    let_end,
    start_stopped,
    wait_for_list,
    wait_for_whole,
    wait_until_gone,
)
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

pytestmark = pytest.mark.usefixtures("broker")

WITH_PAUSE = f"""\
{PAUSE}
def main():
    a = 1
    set_trace()
    pause()
    b = a + 1
    c = b + 1
    print("result", c, flush=True)

main()
"""
"""A program that pauses after its stop, and then writes ``result 3``."""

LOOP = f"""\
{PAUSE}
def main():
    total = 0
    set_trace()
    for step in range(4):
        total += step
    print("result", total, flush=True)

main()
"""

ASKS = "Leave the debugger?"
"""Title of the dialog that ``q`` opens."""

AT_ONCE = seconds(3)
"""Seconds: longer than a busy machine stalls, shorter than users wait before they resize again."""


def shows_dialog(title: str) -> re.Pattern[str]:
    """Return a pattern of the whole box of PuDB's dialog with that title."""
    return re.compile(rf"┌─+┐.*│ +{re.escape(title)} +│.*└─+┘", re.DOTALL)


class TestLooks:
    @pytest.mark.parametrize(("rows", "cols"), [(24, 80), (50, 160), (20, 50)])
    def test_pudb_fills_the_terminal_but_for_the_status_line(
        self, rows: int, cols: int, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0", rows=rows, cols=cols)
        wait_for_whole(terminal, home)
        assert terminal.row(0).startswith("PuDB 20")
        assert terminal.row(-2).startswith(">>>")
        # The status line is drawn by itself, after the rank's screen.
        terminal.wait_for(re.compile(r"^ [a-z0-9-]+:0  stopped .*Ctrl-\] d", re.MULTILINE))
        assert "Ctrl-] d" in terminal.row(-1)
        assert max(map(len, terminal.screen)) > cols * 0.8
        assert WORD[:8] in "".join(terminal.screen)
        assert "Welcome" not in terminal.output.decode()

    def test_a_terminal_that_is_too_small_shows_a_part(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, WITH_PAUSE)
        terminal = open_terminal(attach_command("0"), rows=10, cols=30)
        terminal.wait_for(lambda terminal: "def" in "".join(terminal.screen) and "stopped" in terminal.row(-1))
        drawn = rows_of_rank(home, "0")
        assert (len(drawn), max(map(len, drawn))) == (12, 40)
        # The last column shows what was written there last; every column to its left is in its place.
        part = [row[:29].rstrip() for row in drawn[:9]]
        terminal.wait_for(lambda terminal: [row[:29].rstrip() for row in terminal.screen[:9]] == part)
        terminal.send("n")
        wait_for_list(home, lambda listed: listed[0]["where"]["line"] == 10)
        terminal.resize(24, 80)
        wait_for_line(terminal, 10)
        wait_for_whole(terminal, home)

    def test_without_a_status_line_pudb_has_the_last_row(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0", "--no-status")
        drawn = rows_of_rank(home, "0")
        terminal.wait_for(lambda terminal: terminal.screen == drawn)
        assert len(drawn) == 24
        assert terminal.row(-1).startswith(">>>")
        terminal.send("n")
        terminal.wait_for(re.compile(r"^> +a = scaled", re.MULTILINE))
        let_end(terminal, rank)

    @pytest.mark.parametrize("term", [None, "dumb", "xterm"])
    def test_256_colours_whatever_the_ranks_own_terminal_is(
        self, term: str | None, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        config = home / "homes" / "rank0" / ".config" / "pudb" / "pudb.cfg"
        config.parent.mkdir(parents=True)
        config.write_text("[pudb]\ntheme = monokai-256\n")
        unset = ["-u", "TERM", "-u", "COLORTERM"] if term is None else [f"TERM={term}"]
        (rank,) = start_ranks(processes, home, WORKING, 1, wrap=lambda command: ["env", *unset, *command])
        wait_until_stopped(home, 1)
        terminal = sit_in_pudb(open_terminal, "0")
        assert re.search(rb"38;5;\d+", terminal.output)
        named = {"default", "black", "red", "green", "brown", "blue", "magenta", "cyan", "white"}
        shown = {colour for row in range(23) for pair in terminal.virtual.colours(row) for colour in pair}
        assert shown - named, shown
        assert rank.text("stderr").count("\n") == 1, rank.text("stderr")

    def test_every_character_is_drawn_for_a_rank_in_an_ascii_locale(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        ascii_only = {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        rank = start_stopped(processes, home, WORKING, env={**ascii_only, "PYTHONCOERCECLOCALE": "0"})
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.wait_for(re.compile(f'word = "{WORD}"'))
        terminal.wait_for(re.compile(f"word: '{WORD}'"))
        terminal.send("q")
        terminal.wait_for(shows_dialog(ASKS))
        terminal.send("s!print(word * 2)\r")
        terminal.wait_for(re.compile(f"^{WORD * 2}$", re.MULTILINE))
        terminal.send(b"\x18")
        let_end(terminal, rank)

    def test_the_ranks_home_stays_empty(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        rank = start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("nb!1\r\x18")
        wait_for_line(terminal, WORKING_STOP + 1)
        terminal.send("b")
        let_end(terminal, rank)
        assert list((home / "homes" / "rank0").rglob("*")) == []


def is_drawn(terminal: Terminal) -> bool:
    """Tell whether PuDB fills the terminal, down to its command line above the status line."""
    return terminal.row(0).startswith("PuDB") and terminal.row(-2).startswith(">>>") and "stopped" in terminal.row(-1)


def is_drawn_with_dialog(terminal: Terminal) -> bool:
    """Tell whether PuDB fills the terminal, with a dialog in the middle of it."""
    tops = [(row.find("┌─"), row.find("─┐")) for row in terminal.screen if "─┐" in row]
    width = len(terminal.row(-1)) + 1
    return is_drawn(terminal) and any(abs(left - (width - 2 - right)) <= 2 for left, right in tops)


class TestResize:
    def test_is_drawn_at_once(self, processes: Processes, home: Path, open_terminal: OpenTerminal) -> None:
        start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0")
        for rows, cols in ((40, 132), (20, 60), (24, 80)):
            terminal.resize(rows, cols)
            terminal.wait_for(is_drawn, AT_ONCE)
            wait_for_whole(terminal, home)

    @pytest.mark.parametrize(
        ("key", "title"), [("q", ASKS), ("?", "PuDB - The Python Urwid Debugger")], ids=["q", "help"]
    )
    def test_is_drawn_at_once_inside_a_dialog(
        self, key: str, title: str, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        start_stopped(processes, home, WORKING)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send(key)
        terminal.wait_for(shows_dialog(title))
        for rows, cols in ((40, 132), (20, 60), (24, 80)):
            terminal.resize(rows, cols)
            terminal.wait_for(is_drawn_with_dialog, AT_ONCE)
            wait_for_whole(terminal, home)
            assert shows_dialog(title).search("\n".join(terminal.screen))
        terminal.send("\x1b")
        wait_until_gone(terminal, title)
        wait_for_whole(terminal, home)
        terminal.send("n")
        wait_for_line(terminal, WORKING_STOP + 1)


class TestGoingOn:
    @pytest.mark.parametrize("resized", [False, True], ids=["same size", "resized meanwhile"])
    def test_with_a_breakpoint_left_the_terminal_stays_and_shows_the_next_stop(
        self, resized: bool, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, WITH_PAUSE)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("jjb")
        terminal.wait_for("rank_script.py:11")
        terminal.send("c")
        terminal.wait_for("0 is running, 1 breakpoint left.")
        terminal.wait_for(lambda terminal: " running " in terminal.row(-1))
        assert "Variables:" not in "\n".join(terminal.screen)
        if resized:
            terminal.resize(30, 90)
        rank.signal(signal.SIGUSR1)
        terminal.wait_for("(1 hit)")
        wait_for_line(terminal, 11)
        wait_for_whole(terminal, home)
        terminal.send("n")
        terminal.wait_for("b: 2")
        terminal.send("kb")
        wait_until_gone(terminal, "(1 hit)")
        let_end(terminal, rank, result=3)

    def test_a_stop_that_follows_at_once_is_drawn_whole(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, LOOP)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("nnb")
        terminal.wait_for("(0 hits)")
        for hits in (1, 2, 3):
            terminal.send("c")
            terminal.wait_for(f"({hits} hit")
            wait_for_whole(terminal, home)
        terminal.send("b")
        let_end(terminal, rank, result=6)

    def test_a_step_that_takes_long_is_told_as_running_and_where(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal
    ) -> None:
        rank = start_stopped(processes, home, WITH_PAUSE)
        terminal = sit_in_pudb(open_terminal, "0")
        terminal.send("nn")
        terminal.wait_for(
            lambda terminal: re.search(r" running for \d+ s +signal\.py:\d+ in sigwait", terminal.row(-1))
        )
        terminal.send("\x1d?")
        terminal.wait_for("q goes back")
        terminal.send("q")
        terminal.wait_for("is running to the end of a step")
        rank.signal(signal.SIGUSR1)
        wait_for_line(terminal, 11)
        wait_for_whole(terminal, home)
        let_end(terminal, rank, result=3)

    def test_with_no_breakpoint_left_the_session_ends_and_the_terminal_is_given_back(
        self, processes: Processes, home: Path, open_terminal: OpenTerminal, tmp_path: Path
    ) -> None:
        rank = start_stopped(processes, home, WORKING)
        terminal = open_terminal(with_own_settings(tmp_path, attach_command("0")))
        terminal.wait_for(DRAWN)
        let_end(terminal, rank)
        assert_given_back(terminal, tmp_path)
        shown = [row for row in terminal.screen if row]
        assert len(shown) == 2
        assert re.fullmatch(r"Attached to [a-z0-9-]+:0 \(PuDB\)\. Ctrl-\] d detaches, Ctrl-\] \? helps\.", shown[0])
        assert re.fullmatch(r"[a-z0-9-]+:0 went on; --follow waits for its next stop", shown[1])
