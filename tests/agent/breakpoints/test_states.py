"""What a process says of its stops while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TRAIN = """\
import sys
import dbg_agent.program.entry
from dbg_agent.breakpoints.points import stop_states

def told():
    return [[one.stop, one.line, one.armed, one.hits, one.problem] for one in stop_states()]

dbg_agent.program.entry.stop_at = lambda *_, **__: None

def train(steps):
    for step in range(steps):
        # a comment
        x = step

before = told()
train(3)
import helper
helper.double(1)
print({"before": before, "after": told()})
"""

HELPER = """\
def double(x):
    return 2 * x
"""


def test_it_is_armed_once_its_module_is_loaded_and_its_hits_are_counted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "helper.py").write_text(HELPER)
    environ = {
        **os.environ,
        "DBG_AUTOSTART": str(os.getpid()),
        "DBG_GUARD": "0",
        "DBG_CONNECT_TIMEOUT": "60",
        "DBG_HOME": str(tmp_path),
        "DBG_STOP_AT": "train.py:12, step > 0\nhelper.py:2\ngone.py:1",
        "DBG_STOP_IN": "helper:double\nhelper:triple",
    }
    result = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    told = eval(result.stdout)  # noqa: S307 - printed by the program above
    assert told["before"][0] == ["train.py:12, step > 0", 13, True, 0, ""]
    assert told["before"][1] == ["helper.py:2", None, False, 0, ""]
    assert told["after"][:4] == [
        ["train.py:12, step > 0", 13, True, 2, ""],
        ["helper.py:2", 2, True, 1, ""],
        ["gone.py:1", None, False, 0, ""],
        ["helper:double", None, True, 1, ""],
    ]
    stop, line, armed, hits, problem = told["after"][4]
    assert (stop, line, armed, hits) == ("helper:triple", None, False, 0)
    assert problem.startswith(f"{tmp_path}/helper.py: ")
