"""The demo shows what it promises, and leaves nothing behind after any way to leave it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import Processes
from tests.support.time_unit import seconds

DEMO = [sys.executable, str(Path(__file__).parents[2] / "examples/demo.py")]


@pytest.fixture
def environ(processes: Processes, tmp_path: Path) -> dict[str, str]:
    """An environment whose temporary folder is the test's own, so that leftovers can be found."""
    return processes.marked(os.environ) | {"TMPDIR": str(tmp_path)}


def test_without_a_terminal_it_prints_ranks_and_screen(
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
