"""Stock debuggers in scripts of users, with the real broker and the real terminal in a window."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.test_classic import COLUMNS, ROWS, Open, start_pudb
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach_command, attach_list, wait_until_stopped


def test_quitting_ends_the_program_and_the_session(processes: Processes, home: Path, open_terminal: Open) -> None:
    broker = running_broker(processes, home, "--classic", "0")
    script = start_pudb(processes, broker, 0, home)
    wait_until_stopped(home, 1)
    other = start_pudb(processes, broker, 1, home)
    wait_until_stopped(home, 2)
    terminal = open_terminal(attach_command("?1"), rows=ROWS + 1, cols=COLUMNS)
    terminal.wait_for("PuDB ")
    terminal.send("q")
    assert terminal.exit_status() == 8
    assert script.wait() == 1
    assert other.exit_status is None
    assert [rank["state"] for rank in attach_list(home)] == ["stopped"]
    assert {rank["state"] for rank in attach_list(home, "--all")} == {"stopped", "exited"}
