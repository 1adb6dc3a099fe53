"""The end of a program with breakpoints: nothing of ours is printed or raised while the interpreter shuts down."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.time_unit import seconds

PROGRAM = """\
import sys, threading, warnings

warnings.simplefilter("ignore")  # a fork beside threads
from pathlib import Path

from dbg_wire.records.breakpoints import BreakpointWish
from tests.unit.agent.breakpoints.asking import ask
from tests.unit.agent.pdb_driver import Driver


class Kept:
    def __del__(self):
        self.gone = True  # in a finalizer


import __main__
__main__.kept = Kept()
sys.kept = Kept()
line = Path(__file__).read_text().splitlines().index("        self.gone = True  # in a finalizer") + 1
(state,) = ask(Driver(), BreakpointWish(file=__file__, line=line, condition="1 / 0 or True", hits="> 100"))
assert state.is_set, state
pid = __import__("os").fork()
if pid:
    assert __import__("os").waitpid(pid, 0)[1] == 0
Kept()
print("ends", flush=True)
"""


def test_a_program_ends_as_without_breakpoints(tmp_path: Path) -> None:
    script = tmp_path / "ending.py"
    script.write_text(PROGRAM)
    path = os.pathsep.join(part for part in sys.path if part)
    environ = {**os.environ, "PYTHONPATH": f"{Path.cwd()}{os.pathsep}{path}"}
    done = subprocess.run(
        [sys.executable, script], env=environ, capture_output=True, text=True, timeout=seconds(20), check=False
    )
    assert (done.returncode, done.stdout) == (0, "ends\nends\n"), done.stderr
    told = [line for line in done.stderr.splitlines() if "the condition raised ZeroDivisionError" not in line]
    assert told == []
