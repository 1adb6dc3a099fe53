"""The program in the pane, when nobody tells it what to run; the rest is in test_tmux_session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dbg_broker.run import tmux_pane


def test_a_pane_that_is_told_nothing_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", tmux_pane.__file__, str(tmp_path / "gone")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("this pane was not told what to run (")
