"""An edit of the source during a stop changes neither what the debugger shows nor which statements have breakpoints."""

from __future__ import annotations

import re

from tests.e2e.test_debuggers import PROGRAM, PYTHON
from tests.support.runs import Directory


def test_a_breakpoint_set_in_pdb_after_an_edit_is_the_statement_that_was_shown(directory: Directory) -> None:
    directory.write(PROGRAM)
    terminal = directory.run("--engine", "pdb", *PYTHON)
    terminal.wait_for("a = 1")
    directory.write(f"# one\n# two\n{PROGRAM}")
    terminal.send("b 5\r")
    terminal.wait_for("Breakpoint 1 at")
    terminal.send("ll\r")
    terminal.wait_for(re.compile(r"5 B\s+c = 3"))
    terminal.send(b"\x1dR")
    terminal.wait_for("[y/N]")
    terminal.send("y")
    terminal.wait_for(re.compile(r"train\.py\(5\)<module>"))
    terminal.send("c\r")
    terminal.wait_for(re.compile(r"train\.py\(7\)<module>"))
    terminal.send("c\r")
    assert terminal.exit_status() == 0
