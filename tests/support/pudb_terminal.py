"""A terminal in the PuDB of a rank, and a test's questions to it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.ranks import attach, attach_command, attach_list
from tests.support.terminal import Terminal

DRAWN = "Variables:"
"""Text that stands on every screen of PuDB, and nowhere else."""

HELP = "Key Assignments:"
"""Text at the top of PuDB's help, which the key ``?`` opens."""


def sit_in_pudb(open_terminal: OpenTerminal, *arguments: str, rows: int = 24, cols: int = 100) -> Terminal:
    """Return a terminal that ``dbg-attach`` has put into PuDB; ``arguments`` are its target and options."""
    terminal = open_terminal(attach_command(*arguments), rows, cols)
    terminal.wait_for(DRAWN)
    return terminal


def line_shown(terminal: Terminal) -> int:
    found = re.search(r" stopped .*\.py:(\d+) in ", terminal.row(-1))
    return int(found[1]) if found else 0


def wait_for_line(terminal: Terminal, line: int, timeout: float | None = None) -> None:
    terminal.wait_for(lambda terminal: line_shown(terminal) == line, timeout)


def line_after_all_keys(terminal: Terminal, home: Path, timeout: float | None = None) -> int:
    """Return the line where the only rank is once it has taken every key typed so far.

    PuDB takes keys in order: when it shows the help that was typed last, it has carried out all keys before.
    """
    terminal.send("?")
    terminal.wait_for(HELP, timeout)
    (rank,) = attach_list(home)
    terminal.send("\x1b")
    terminal.wait_for(lambda terminal: HELP not in "\n".join(terminal.screen))
    line: int = rank["where"]["line"]
    return line


def rows_of_rank(home: Path, target: str) -> list[str]:
    result = attach(home, "screen", target)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()
