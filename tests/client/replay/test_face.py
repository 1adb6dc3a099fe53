"""A replay in a real terminal: what is drawn, what the keys do, and what is left behind."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.client.replay.tapes import cast, screen
from tests.conftest import OpenTerminal
from tests.support.terminal import Terminal

LONG = 60.0


def play(
    open_terminal: OpenTerminal, path: Path, data: bytes, *options: str, rows: int = 25, cols: int = 120
) -> Terminal:
    path.write_bytes(data)
    command = [sys.executable, "-m", "dbg_client", "--replay", str(path), *options]
    return open_terminal(command, rows, cols, {**os.environ, "DBG_HOME": str(path.parent)})


def test_keys(open_terminal: OpenTerminal, tmp_path: Path) -> None:
    """Pauses of a minute stand still, so that only keys move the replay."""
    events = [
        (0.0, "o", screen("the first screen")),
        (LONG, "m", "alice types"),
        (LONG, "o", screen("the second screen")),
        (LONG, "m", "bob types"),
        (LONG, "o", "\x1b[5;1Ha third line"),
    ]
    window = play(open_terminal, tmp_path / "a.cast", cast(*events), "--idle", "1h")
    window.wait_for("the first screen")
    window.wait_for(re.compile(r"^ playing  0:00/4:00", re.MULTILINE))
    window.send(" ")
    window.wait_for(" paused ")
    window.send(".")
    window.wait_for(re.compile(r"the second screen(.*\n)*.* paused  2:00/4:00   alice types"))
    window.send("]")
    window.wait_for("bob types")
    window.send("[")
    window.wait_for(" 1:00/4:00")
    window.wait_for("the first screen")
    window.send("\x1b[C")
    window.wait_for(" 1:05/4:00")
    window.send("\x1b[D\x1b[D")
    window.wait_for(" 0:55/4:00")
    window.send("++")
    window.wait_for("  4x")
    window.send("---")
    window.wait_for("  0.5x")
    window.send("/Third")
    window.wait_for("/Third")
    window.send("\r")
    window.wait_for("a third line")
    window.wait_for(" the end  4:00/4:00")
    window.resize(20, 60)
    window.wait_for(lambda terminal: "the end" in terminal.row(-1))
    window.wait_for("the second screen")
    window.send("q")
    assert window.exit_status() == 0
    assert not any("screen" in row for row in window.screen)


def test_lines_scroll_above_the_status_line(open_terminal: OpenTerminal, tmp_path: Path) -> None:
    events = [(0.0, "o", f"line {number}\r\n") for number in range(100)]
    window = play(open_terminal, tmp_path / "a.cast", cast(*events))
    window.wait_for(lambda terminal: terminal.row(-1).startswith(" the end"))
    window.wait_for("line 99")
    assert window.row(0) == "line 77"
    window.send("\x03")
    assert window.exit_status() == 0


HOSTILE = (
    "\x1b]2;owned\x07\x1b]52;c;aGk=\x07\x1b[6n\x1b[c\x1b[?1049l\x1b[20t\x05\x1bP$qm\x1b\\\x1b[3J\x1bc\x1b[21t\x9b6n",
    "\ud800\x1b]0;",
    "\x1b[?1000h\x1b[99999;99999H\x1b[2;5",
)


def test_a_hostile_recording_draws_and_does_nothing_else(open_terminal: OpenTerminal, tmp_path: Path) -> None:
    events = [(0.0, "o", text) for text in HOSTILE]
    marks = [(0.0, "m", "\x1b[2J\x1b]2;owned\x07evil"), (0.0, "r", "99999x99999"), (0.0, "o", "\r\nharmless")]
    window = play(open_terminal, tmp_path / "a.cast", cast(*events, *marks))
    window.wait_for("the end")
    window.wait_for("evil")
    seen = bytes(window.output)
    for sequence in (b"owned\x07\x1b", b"\x1b]52", b"\x1b[6n", b"\x1b[c", b"\x1b[20t", b"\x1bP", b"\x1b[3J", b"\x1bc"):
        assert sequence not in seen
    assert b"\x1b]2;owned" not in seen
    # The user's own screen stays behind the replay's.
    assert b"\x1b[?1049l" not in seen
    window.send("q")
    assert window.exit_status() == 0


@pytest.mark.parametrize("rest", [b'[0, "o", "cut', b"garbage\n"])
def test_a_broken_file_plays_and_is_told(open_terminal: OpenTerminal, tmp_path: Path, rest: bytes) -> None:
    window = play(open_terminal, tmp_path / "a.cast", cast((0.0, "o", "what is there")) + rest)
    window.wait_for("what is there")
    window.send("q")
    assert window.exit_status() == 0
    window.wait_for("middle of a line" if b"cut" in rest else "1 line of the recording can't be read")
