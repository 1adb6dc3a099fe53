"""The stops of a run, seen from a session in the midst of it."""

from __future__ import annotations

import re
import sys

from tests.support.runs import STEP, Directory, line_of, wait_for_prompt


def test_a_session_tells_which_stops_are_armed_and_were_hit(directory: Directory) -> None:
    line = line_of(STEP)
    stops = ("--stop-at", f"train.py:{line}, step > 0", "--stop-in", "colorsys:hls_to_rgb")
    terminal = directory.run_to_prompt(*stops, "--", sys.executable, "train.py", line=line)
    terminal.send("c")
    terminal.wait_for(re.compile(r"step: 2\b"))
    terminal.send(b"\x1d:stops\r")
    terminal.wait_for("hits: none")
    shown = "\n".join(row.strip() for row in terminal.screen)
    assert f"train.py:{line}, step > 0\narmed in rank 0\nhits: 2 in rank 0" in shown
    assert "colorsys:hls_to_rgb\nnot loaded yet " in shown
    terminal.send("q")
    wait_for_prompt(terminal, line)
    directory.attach("kill", "all", "-y")
    terminal.exit_status()
