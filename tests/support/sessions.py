"""A terminal in the PuDB of one rank, opened with a target and detached, as by a user."""

from __future__ import annotations

from tests.conftest import OpenTerminal
from tests.support.broker import Wrap
from tests.support.ranks import attach_command
from tests.support.terminal import Terminal

ROWS, COLUMNS = 30, 140
"""Wide enough for the longest address of the tests and the place beside it."""

DETACH = b"\x1dd"
"""The escape prefix and its ``d``."""


def open_pudb(
    open_terminal: OpenTerminal, target: str, address: str, *, wrap: Wrap = list, timeout: float | None = None
) -> Terminal:
    """Attach a terminal to ``target``; return it once it shows PuDB over a status line of the stopped ``address``."""
    terminal = open_terminal(wrap(attach_command(target)), rows=ROWS, cols=COLUMNS)

    def shows_pudb(seen: Terminal) -> bool:
        return seen.row(0).startswith("PuDB") and seen.row(-1).startswith(f" {address}  stopped  ")

    terminal.wait_for(shows_pudb, timeout)
    return terminal


def detach(terminal: Terminal) -> None:
    """Detach the terminal from its rank; fail if the terminal's program does not end with status 0."""
    terminal.send(DETACH)
    status = terminal.exit_status()
    assert status == 0, terminal.dump()
