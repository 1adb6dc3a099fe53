"""Variables that more than one role knows are named in one place."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from dbg_wire.finding.environment import pane_environment


def test_a_pane_has_the_environment_of_whoever_opens_it_and_none_of_its_servers(tmp_path: Path) -> None:
    hostile = "a 'b'\n$(exit 3) \udcff;"
    environ = {"TEXT": hostile, "TERM": "theirs", "UID": "7", "no name": "x", "BASH_FUNC_f%%": "() { :; }"}
    script = tmp_path / "it's a pane"
    script.write_text(
        f'{pane_environment(environ)}printf "%s|%s|%s" "$TEXT" "$TERM" "$STALE"\n', errors="surrogateescape"
    )

    done = subprocess.run(
        ["sh", str(script)],
        env={"PATH": os.environ["PATH"], "TERM": "tmux", "STALE": "of the server"},
        capture_output=True,
        check=True,
    )

    assert done.stdout.decode(errors="surrogateescape") == f"{hostile}|tmux|"
