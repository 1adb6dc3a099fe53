"""Detaching loses nothing, every size is drawn whole, and each terminal knows what others do."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from dbg_client.core.waiting import WAITING
from tests.conftest import OpenTerminal
from tests.smoke.test_terminal import ME
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
from tests.support.ranks import attach, attach_command, attach_list, start_ranks, wait_until_states, wait_until_stopped
from tests.support.sessions import detach
from tests.support.stopped_rank import (
    COUNTING,
    COUNTING_STOP,
    WORD,
    WORKING,
    let_end,
    nobody_there,
    start_stopped,
    wait_for_list,
    wait_for_whole,
    wait_until_gone,
)
from tests.support.terminal import Terminal

pytestmark = pytest.mark.usefixtures("broker")


OPEN = b"\x1d:"


BACK = "goes back"


EVERYWHERE = """\
import os
from dbg_agent import set_trace
rank = int(os.environ["RANK"])
set_trace(engine=os.environ.get("SCRIPT_ENGINE"))
one = 1
two = 2
print("ended", flush=True)
"""


def answer_to(terminal: Terminal, command: str, *texts: str) -> list[str]:
    """Give a command, and return its answer's rows once it has all these texts."""
    terminal.send(OPEN)
    terminal.wait_for("Esc leaves")
    terminal.send(f"{command}\r")
    terminal.wait_for(lambda it: BACK in it.row(-1) and all(text in "\n".join(it.screen) for text in texts))
    return terminal.screen[:-1]


def test_the_tree_is_shown_over_pudb_which_is_redrawn_afterwards(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    ranks = start_ranks(processes, home, EVERYWHERE, 3)
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    terminal = sit_in_pudb(open_terminal, "0")
    wait_for_line(terminal, 4)
    terminal.wait_for("others: 2 stopped")
    wait_for_whole(terminal, home)
    before = terminal.screen

    tree = answer_to(terminal, "where all", "3 of 3 ranks answered")

    assert any("[0-2]" in row and "rank_script.py:" in row for row in tree)
    assert "Variables:" not in "\n".join(tree)
    # As typed by somebody who takes the page for a command line: no key of it moves the rank.
    terminal.send("e all rank\rq")
    terminal.wait_for(lambda it: it.screen == before)
    wait_for_whole(terminal, home)
    answer_to(terminal, "e 1-2 rank * 10", "2 of 2 ranks answered, 2 different values", "10", "20")
    terminal.send("q")
    wait_for_whole(terminal, home)
    terminal.send("n")
    wait_for_line(terminal, 5)
    answer_to(terminal, "continue 1-2", "continued")
    assert [rank.wait() for rank in ranks[1:]] == [0, 0]
    terminal.send("q")
    wait_for_whole(terminal, home)
    detach(terminal)
    assert attach(home, "continue", "0").returncode == 0
    assert ranks[0].wait() == 0


def test_the_rank_stays_stopped_and_is_redrawn_at_another_size(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    rank = start_stopped(processes, home, COUNTING)
    first = sit_in_pudb(open_terminal, "0", rows=24, cols=80)
    assert attach_list(home)[0]["driver"] == ME
    first.send("nn")
    wait_for_line(first, COUNTING_STOP + 2)
    first.send("?")  # a dialog opens, and stays open
    first.wait_for(HELP)
    first.kill()
    assert first.exit_status() == -signal.SIGKILL
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


def test_follow_attaches_to_the_next_stop_and_to_a_relaunched_rank(
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


@pytest.mark.parametrize("term", [None, "dumb", "xterm"])
def test_pudb_has_256_colours_on_any_terminal_of_the_rank(
    term: str | None, processes: Processes, home: Path, open_terminal: OpenTerminal
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
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    ascii_only = {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    rank = start_stopped(processes, home, WORKING, env={**ascii_only, "PYTHONCOERCECLOCALE": "0"})
    terminal = sit_in_pudb(open_terminal, "0")
    terminal.wait_for(re.compile(f'word = "{WORD}"'))
    terminal.wait_for(re.compile(f"word: '{WORD}'"))
    terminal.send("q")
    # The whole box of the dialog.
    terminal.wait_for(re.compile(r"┌─+┐.*│ +Leave the debugger\? +│.*└─+┘", re.DOTALL))
    terminal.send("s!print(word * 2)\r")
    terminal.wait_for(re.compile(f"^{WORD * 2}$", re.MULTILINE))
    terminal.send(b"\x18")
    let_end(terminal, rank)


@pytest.mark.parametrize(("rows", "cols"), [(16, 60), (40, 140)], ids=["smaller", "larger"])
def test_a_watcher_of_another_size_sees_no_garbage(
    rows: int, cols: int, processes: Processes, home: Path, open_terminal: OpenTerminal
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
