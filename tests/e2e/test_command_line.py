"""``Ctrl-] :`` from end to end: a session asks other ranks and lets them go, and is afterwards as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import OpenTerminal
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN, sit_in_pudb, wait_for_line
from tests.support.ranks import attach, attach_command, start_ranks, wait_until_states
from tests.support.sessions import detach
from tests.support.stopped_rank import wait_for_status, wait_for_whole, wait_until_gone
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds
from tests.support.tokens import written_tokens

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

CHOSEN = """\
import os
from dbg_agent import set_trace
go_on = os.path.join(os.environ["DBG_HOME"], "go_on")
def collective():
    import time
    while not os.path.exists(go_on):
        time.sleep(0.05)
set_trace(ranks=0)
collective()
print("ended", flush=True)
"""

CRASHING = """\
import dbg_agent
dbg_agent.install(post_mortem=True, lease=600)
def scaled(number):
    raise ValueError(f"bad {number}")
scaled(7)
"""


def answer_to(terminal: Terminal, command: str, *texts: str) -> list[str]:
    """Give a command, and return its answer's rows once it has all these texts."""
    terminal.send(OPEN)
    terminal.wait_for("Esc leaves")
    terminal.send(f"{command}\r")
    terminal.wait_for(lambda it: BACK in it.row(-1) and all(text in "\n".join(it.screen) for text in texts))
    return terminal.screen[:-1]


def test_the_tree_is_seen_over_pudb_which_is_whole_afterwards(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    ranks = start_ranks(processes, home, EVERYWHERE, 3)
    wait_until_states(home, dict.fromkeys(range(3), "stopped"))
    terminal = sit_in_pudb(open_terminal, "0")
    wait_for_line(terminal, 4)
    terminal.wait_for("2 others stopped")
    wait_for_whole(terminal, home)
    before = terminal.screen

    tree = answer_to(terminal, "where all", "3 of 3 ranks answered")

    assert any("[0-2]" in row and "rank_script.py:" in row for row in tree)
    assert "Variables:" not in "\n".join(tree)
    # As typed by somebody who takes the page for a command line: no key of it moves the rank.
    terminal.send("e all rank\r")
    terminal.wait_for("does nothing here")
    terminal.send("\x1b")
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


def test_a_prompt_of_pdb_comes_back_with_the_line_that_was_half_typed(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    ranks = start_ranks(processes, home, EVERYWHERE, 2, env={"SCRIPT_ENGINE": "pdb"})
    wait_until_states(home, {0: "stopped", 1: "stopped"})
    terminal = open_terminal(attach_command("0"), rows=20, cols=100)
    terminal.wait_for("(Pdb)")
    terminal.send("p rank + ")
    terminal.wait_for("(Pdb) p rank + ".rstrip())
    before = terminal.screen

    answer_to(terminal, "e 0-1 rank", "2 of 2 ranks answered, 2 different values")

    terminal.send("e all rank\r")
    terminal.wait_for("does nothing here")
    terminal.send("\x1b")
    terminal.wait_for(lambda it: it.screen == before)
    terminal.send("1000\r")
    terminal.wait_for("\n1000\n")
    answer_to(terminal, "c all p one if 'one' in globals() else 'none'", "2 of 2 ranks answered")
    terminal.send("q")
    terminal.wait_for("(Pdb)")
    detach(terminal)
    assert attach(home, "continue", "all").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0]


def test_who_steps_while_others_are_held_is_told_and_lets_them_go(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    ranks = start_ranks(processes, home, CHOSEN, 3)
    wait_until_states(home, {0: "stopped", 1: "held", 2: "held"})
    terminal = sit_in_pudb(open_terminal, "0", cols=150)
    wait_for_line(terminal, 8)
    terminal.send("n")
    wait_for_line(terminal, 9)
    terminal.send("n")
    terminal.wait_for(
        lambda it: "2 held ranks wait for this one; a collective would wait for ever: Ctrl-] : release" in it.row(-1),
        seconds(20),
    )

    answer_to(terminal, "release", "released")

    (home / "go_on").touch()
    assert [rank.wait() for rank in ranks[1:]] == [0, 0]
    terminal.send("q")
    wait_for_line(terminal, 10)
    detach(terminal)
    assert attach(home, "continue", "0").returncode == 0
    assert ranks[0].wait() == 0


def test_a_watchers_token_may_look_on_and_ask_nothing(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    ranks = start_ranks(processes, home, EVERYWHERE, 2)
    wait_until_states(home, {0: "stopped", 1: "stopped"})
    token = written_tokens(home)["watcher"]
    terminal = open_terminal(attach_command("0"), cols=100, env={**os.environ, "DBG_TOKEN": token})
    terminal.wait_for(DRAWN)
    answer_to(terminal, "where", "2 of 2 ranks answered")
    terminal.send("q")
    terminal.wait_for(DRAWN)
    answer_to(terminal, "screen 1", DRAWN)
    terminal.send("q")
    terminal.wait_for(DRAWN)

    for command in ("e 0-1 rank", "continue all"):
        answer_to(terminal, command, "the broker refused: this token may only watch")
        terminal.send("q")
        terminal.wait_for(DRAWN)

    detach(terminal)
    assert attach(home, "continue", "all").returncode == 0
    assert [rank.wait() for rank in ranks] == [0, 0]


def test_the_status_line_of_a_crash_names_the_exception(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    (rank,) = start_ranks(processes, home, CRASHING, 1)
    wait_until_states(home, {0: "stopped"})
    terminal = sit_in_pudb(open_terminal, "0", cols=120)
    wait_for_status(terminal, "  crashed: ValueError: bad 7  ", "    q lets it end    ")
    terminal.wait_for("Uncaught Exception")
    terminal.send("\r")
    wait_until_gone(terminal, "Uncaught Exception")
    terminal.send("q")
    terminal.wait_for("Leave the debugger?")
    terminal.send("c")
    assert terminal.exit_status() in (7, 8)
    assert rank.wait() == 1
