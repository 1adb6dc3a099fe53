"""``run --tmux`` from end to end: a real tmux with a server of its own, a pane for the job and one for its rank."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.requirements import needs_tmux
from tests.support.runs import STEP, Directory, line_of
from tests.support.time_unit import seconds

pytestmark = needs_tmux


@pytest.fixture
def server() -> Iterator[dict[str, str]]:
    """Return the variable by which tmux has a server of its own; the folder's name must be short."""
    folder = tempfile.mkdtemp(prefix="dbg-tmux-test-")
    yield {"TMUX_TMPDIR": folder}
    subprocess.run(["tmux", "kill-server"], env={**os.environ, "TMUX_TMPDIR": folder}, capture_output=True, check=False)
    shutil.rmtree(folder)


def test_the_output_is_in_one_pane_and_the_stopped_rank_beside_it(
    directory: Directory, server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    memory = Path(server["TMUX_TMPDIR"]) / "memory"
    memory.mkdir()
    directory.environ = {**server, "XDG_RUNTIME_DIR": str(memory)}
    line = line_of(STEP)
    terminal = directory.run("--tmux", "--stop-at", f"train.py:{line}", "--", sys.executable, "train.py", cols=170)
    terminal.wait_for(re.compile(r"begins .*│.*Variables:", re.DOTALL), seconds(40))
    terminal.wait_for(re.compile(rf":0  stopped  \S*train.py:{line} in train"))
    # The scripts of session and pane hold an environment, and are gone as soon as their shells have them.
    assert [file.name for file in memory.rglob("*") if file.is_file()] == ["status"]
    # The keys of tmux for the other pane, and a breakpoint at `return total` in it.
    terminal.send("\x02ojjb")
    terminal.wait_for(re.compile(r"│.*train\.py:8"))
    directory.attach("continue", "all")
    terminal.wait_for(re.compile(r"^total 0 .*│", re.MULTILINE))
    terminal.wait_for(re.compile(r"│.*step: 1\b"))
    directory.attach("kill", "all", "-y")
    status = 128 + signal.SIGKILL
    terminal.wait_for(re.compile(rf"dbg-broker run .*\b{status}\b.*Enter"))
    terminal.wait_for(lambda seen: "│" not in "\n".join(seen.screen))
    terminal.send("\r")
    assert terminal.exit_status() == status
    (last,) = directory.home.glob("runs/*/last.json")
    (kept,) = json.loads(last.read_text())["breakpoints"]
    assert (kept["file"], kept["line"]) == (str(directory.path / "train.py"), line_of("return total"))
