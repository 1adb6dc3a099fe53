"""An edit of the source during a stop changes neither what the debugger shows nor which statements have breakpoints."""

from __future__ import annotations

import sys

from dbg_agent.breakpoints.files import EDITED
from tests.support.pudb_terminal import DRAWN
from tests.support.runs import Directory, text_of, wait_for_prompt

CHANGED = EDITED.removeprefix("the file ").partition(";")[0]

PROGRAM = """\
import sys
breakpoint()
a = 1
b = 2
c = 3
print("ends", a, b, c)
"""

PYTHON = ("--", sys.executable, "train.py")


def test_a_breakpoint_set_in_pudb_after_an_edit_is_the_statement_that_was_shown(directory: Directory) -> None:
    directory.write(PROGRAM)
    terminal = directory.run_to_prompt(*PYTHON, line=2)
    directory.write(f"# one\n# two\n{PROGRAM}")
    terminal.send("jjjb")
    terminal.wait_for("train.py:5 (")
    assert "# two" not in text_of(terminal)
    terminal.send(b"\x1dR")
    terminal.wait_for("[y/N]")
    terminal.send("y")
    wait_for_prompt(terminal, 4)
    terminal.send("c")
    wait_for_prompt(terminal, 7)
    assert "c = 3" in text_of(terminal)
    terminal.send("c")
    assert terminal.exit_status() == 0


EDITS_ITSELF = """\
from pathlib import Path
path = Path(__file__)
path.write_text("# one\\n# two\\n" + path.read_text())
breakpoint()
a = 1
"""


def test_a_file_that_was_edited_before_the_stop_is_said_to_have_changed(directory: Directory) -> None:
    directory.write(EDITS_ITSELF)
    terminal = directory.run("--engine", "pudb", *PYTHON)
    terminal.wait_for(DRAWN)
    terminal.wait_for(lambda seen: CHANGED in text_of(seen).replace("\n", ""))
    terminal.send("c")
    assert terminal.exit_status() == 0
