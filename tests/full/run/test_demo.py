"""The demo shows what it promises, and leaves nothing behind after any way to leave it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes import Processes
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

DEMO = [sys.executable, str(Path(__file__).parents[3] / "examples/demo.py")]


@pytest.fixture
def environ(processes: Processes, tmp_path: Path) -> dict[str, str]:
    """An environment whose temporary folder is the test's own, so that leftovers can be found."""
    return processes.marked(os.environ) | {"TMPDIR": str(tmp_path)}


def test_the_demo_prints_ranks_and_screen_without_a_terminal(
    environ: dict[str, str], processes: Processes, tmp_path: Path
) -> None:
    result = subprocess.run(
        DEMO,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=environ,
        timeout=seconds(100),
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "where: 4 of 4 ranks answered" in result.stdout
    assert re.search(r"^@3  1 rank  2  nan$", result.stdout, re.MULTILINE)
    assert "PuDB" in result.stdout
    assert "set_trace()" in result.stdout
    assert len(re.findall(r"^rank \d of 4: loss", result.stdout, re.MULTILINE)) == 4
    assert result.stdout.endswith("`make demo` plays again.\n")
    assert processes.strays() == []
    assert list(tmp_path.glob("dbg-demo-*")) == []


@pytest.mark.parametrize(
    ("leave", "status"),
    [
        pytest.param(lambda terminal: terminal.send(b"\x1dd"), 0, id="detach"),
        pytest.param(lambda terminal: terminal.signal(signal.SIGTERM), 128 + signal.SIGTERM, id="SIGTERM"),
        pytest.param(lambda terminal: terminal.close_window(), 128 + signal.SIGHUP, id="window closed"),
    ],
)
def test_the_demo_opens_the_debugger_on_a_terminal(
    leave: Callable[[Terminal], None],
    status: int,
    environ: dict[str, str],
    processes: Processes,
    tmp_path: Path,
) -> None:
    with Terminal(DEMO, rows=80, cols=100, env=environ) as terminal:
        terminal.wait_for("Enter opens it:", seconds(60))
        assert "where: 4 of 4 ranks answered" in "\n".join(terminal.screen)
        terminal.send("\r")
        terminal.wait_for("PuDB", seconds(60))
        terminal.wait_for("STOP_AT_STEP")
        # The riddle is why a value is not a number, and a screen of any height shows all lines of the program.
        assert b"DEFECT" not in terminal.output
        leave(terminal)
        assert terminal.exit_status(seconds(60)) == status
        # The processes of the test's terminal carry the mark too.
        assert [pid for pid in processes.strays() if pid not in terminal.processes] == []
    assert list(tmp_path.glob("dbg-demo-*")) == []
