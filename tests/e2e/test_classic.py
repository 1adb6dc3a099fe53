"""Stock debuggers in scripts of users, with the real broker and the real terminal in a window."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dbg_broker.classic.session import NO_REACTION
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes
from tests.support.ranks import attach_command, wait_until_stopped
from tests.support.terminal import Terminal

COLUMNS, ROWS = 100, 30

PUDB_SCRIPT = """\
import sys
from pudb.remote import set_trace

def train(rank):
    loss = 0.25 + rank
    set_trace(host="127.0.0.1", port={port}, term_size=({columns}, {rows}), reverse=True)
    print("epoch one of rank", rank)
    loss = loss / 2
    for epoch in range(3):
        print("epoch", epoch)
    return open({fifo!r}).read()

sys.__stdout__.write(train(int(sys.argv[1])))
"""

Open = Callable[..., Terminal]


@pytest.fixture
def broker(processes: Processes, home: Path) -> RunningBroker:
    """Run a broker with a classic port."""
    return running_broker(processes, home, "--classic", "0")


def start_pudb(processes: Processes, broker: RunningBroker, rank: int, home: Path) -> Child:
    """Start a script with stock PuDB, configured so that PuDB shows no welcome."""
    config = home / "config" / "pudb"
    config.mkdir(parents=True, exist_ok=True)
    (config / "pudb.cfg").write_text("[pudb]\nseen_welcome = z\n")
    script = home / f"stock{rank}.py"
    os.mkfifo(home / f"fifo{rank}")
    fifo = str(home / f"fifo{rank}")
    port = broker.process.wait_for_output(r"stock PuDB.* port=([0-9]+)")[1]
    script.write_text(PUDB_SCRIPT.format(port=port, columns=COLUMNS, rows=ROWS, fifo=fifo))
    variables = {**os.environ, "XDG_CONFIG_HOME": str(config.parent)}
    return processes.start(f"stock{rank}", [sys.executable, str(script), str(rank)], env=variables)


def debugger_rows(terminal: Terminal) -> list[str]:
    """Return what the debugger shows, without the status line."""
    return terminal.screen[:ROWS]


def at_line(text: str) -> re.Pattern[str]:
    """Return a pattern of PuDB's row of the current line."""
    return re.compile(rf"^[ *]?>[* ]?\s*{re.escape(text)}", re.MULTILINE)


def test_a_session_shows_the_same_screen_after_a_detach(
    processes: Processes, home: Path, broker: RunningBroker, open_terminal: Open
) -> None:
    script = start_pudb(processes, broker, 0, home)
    wait_until_stopped(home, 1)
    first = open_terminal(attach_command("?1"), rows=ROWS + 1, cols=COLUMNS)
    first.wait_for(at_line('print("epoch one'))
    first.send("n")
    first.wait_for(at_line("loss = loss / 2"))
    first.wait_for("epoch one of rank 0")
    first.send("b")
    first.wait_for(re.compile(r"Breakpoints:\s*$(?:.*\n)+?.*stock0", re.MULTILINE))
    before = debugger_rows(first)
    first.send("\x1dd")
    assert first.exit_status() == 0
    again = open_terminal(attach_command("?1"), rows=ROWS + 1, cols=COLUMNS)
    again.wait_for(lambda terminal: debugger_rows(terminal) == before)
    watcher = open_terminal(attach_command("--watch", "?1"), rows=ROWS + 1, cols=COLUMNS)
    watcher.wait_for(lambda terminal: debugger_rows(terminal) == before)
    again.send("n")
    for terminal in (again, watcher):
        terminal.wait_for(at_line("for epoch in range(3):"))
    assert script.exit_status is None


URWID = tuple(int(part) for part in importlib.metadata.version("urwid").split(".")[:2])
TAKES_NO_KEY = sys.version_info >= (3, 12) and URWID >= (4, 1)
"""Whether the stock debugger of this Python is one of those that take no key."""


def test_the_terminal_reports_a_stock_pudb_that_ignores_keys(
    processes: Processes, home: Path, broker: RunningBroker, open_terminal: Open
) -> None:
    start_pudb(processes, broker, 0, home)
    wait_until_stopped(home, 1)
    terminal = open_terminal(attach_command("?1"), rows=ROWS + 1, cols=COLUMNS)
    terminal.wait_for(at_line('print("epoch one'))
    terminal.send("n")
    if TAKES_NO_KEY:
        terminal.wait_for(NO_REACTION.partition(":")[0])
    else:
        terminal.wait_for(at_line("loss = loss / 2"))
