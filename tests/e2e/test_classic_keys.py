"""Keys at a stock PuDB: a terminal says where they have no effect, and the agent's PuDB takes them on every Python.

On Python 3.12 and newer stock ``pudb.remote`` takes no key with urwid 4.1.0 and newer, so the Python that runs a test
decides which case it sees.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.e2e.test_classic import COLUMNS, ROWS, at_line, start_pudb
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach_command, start_ranks, wait_until_stopped
from tests.support.sessions import open_pudb
from tests.support.time_unit import seconds

URWID = tuple(int(part) for part in importlib.metadata.version("urwid").split(".")[:2])

TAKES_NO_KEY = sys.version_info >= (3, 12) and URWID >= (4, 1)
"""Whether the stock debugger of this Python is one of those that take no key."""

SCRIPT = """\
from dbg_agent import install
install(classic=True)
from pudb.remote import set_trace

def train():
    set_trace(host="192.0.2.1", port=6899, term_size=(240, 72), reverse=True)
    loss = 0.25
    return loss

train()
"""


def test_a_stock_pudb_that_takes_no_key_is_told_to_its_terminal(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    broker = running_broker(processes, home, "--classic", "0")
    start_pudb(processes, broker, 0, home)
    wait_until_stopped(home, 1)
    terminal = open_terminal(attach_command("?1"), rows=ROWS + 1, cols=COLUMNS)
    terminal.wait_for(at_line('print("epoch one'))
    terminal.send("n")
    if TAKES_NO_KEY:
        terminal.wait_for("this PuDB has reacted to no key so far")
    else:
        terminal.wait_for(at_line("loss = loss / 2"))


def test_under_install_classic_every_python_takes_keys(
    processes: Processes, home: Path, open_terminal: OpenTerminal
) -> None:
    running_broker(processes, home)
    config = home / "config" / "pudb"
    config.mkdir(parents=True)
    (config / "pudb.cfg").write_text("[pudb]\nseen_welcome = z\n")
    (rank,) = start_ranks(processes, home, SCRIPT, 1, env={"XDG_CONFIG_HOME": str(config.parent)})
    (listed,) = wait_until_stopped(home, 1)
    terminal = open_pudb(open_terminal, "0", listed["address"])
    terminal.send("n")
    terminal.wait_for(at_line("loss = 0.25"))
    terminal.send("c")
    assert rank.wait(seconds(20)) == 0
