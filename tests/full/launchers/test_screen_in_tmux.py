"""A terminal in a real tmux that is given back with its text where it was."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.requirements import needs_tmux
from tests.support.time_unit import seconds

pytestmark = needs_tmux

RESETS = {
    "a job's output is hidden": """
from dbg_client.terminal.screen import CALM
def reset():
    os.write(1, CALM)
""",
    "a session ends": """
from dbg_client.terminal.screen import RawTerminal
def reset():
    with RawTerminal(0, 1) as owner:
        owner.enter_raw()
""",
}

PROGRAM = """
import os
ENTER, LEAVE = b"\\x1b[?1049h", b"\\x1b[?1049l"
{reset}
os.write(1, b"one\\r\\n" + ENTER + b"\\x1b[2J\\x1b[5;5Hlong past" + LEAVE + b"two\\r\\n")
reset()
os.write(1, b"three\\r\\n" + ENTER + b"\\x1b[2J\\x1b[5;5Hcut short")
reset()
os.write(1, b"four\\r\\n")
reset()
os.write(1, b"five\\r\\n")
os.system("tmux wait-for -S written; tmux wait-for seen")
"""


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    # pytest's own folder is too deep: the path of a socket has at most 107 characters.
    folder = tempfile.mkdtemp(prefix="dbg-tmux-test-")
    environ = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
    environ["TMUX_TMPDIR"] = folder
    yield environ
    subprocess.run(["tmux", "kill-server"], env=environ, capture_output=True, check=False)
    shutil.rmtree(folder)


@pytest.mark.parametrize("reset", RESETS.values(), ids=RESETS)
def test_text_in_the_terminal_is_kept(tmp_path: Path, environ: dict[str, str], reset: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(reset=reset))
    command = shlex.join([sys.executable, str(program)])
    tmux(environ, "-f", "/dev/null", "new-session", "-d", "-x", "40", "-y", "15", command)
    tmux(environ, "wait-for", "written")
    shown = [line for line in tmux(environ, "capture-pane", "-p").splitlines() if line]
    assert shown == ["one", "two", "three", "four", "five"]


def tmux(environ: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        ["tmux", *words], env=environ, capture_output=True, text=True, timeout=seconds(20), check=False
    )
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout
