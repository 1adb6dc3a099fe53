"""A job on a terminal of its own: bars are bars, before a stop and behind it."""

from __future__ import annotations

import re
import signal
import sys

from tests.support.runs import Directory, line_of, text_of, wait_for_prompt
from tests.support.sessions import DETACH

PROGRAM = """\
import os, signal, sys

def bar(percent):
    width = os.get_terminal_size(2).columns - 8
    sys.stderr.write(f"\\r{percent:3}% |" + "#" * (width * percent // 100) + "|")

def resized(*_):
    sys.stdout.write(f"\\nresized {os.get_terminal_size(1)}\\n")

signal.signal(signal.SIGWINCH, resized)
print("begins", sys.stdout.isatty(), sys.stdin.isatty())
bar(10)
bar(50)
signal.pause()
bar(100)
print()
signal.pause()
"""


def test_a_bar_stays_a_bar(directory: Directory) -> None:
    directory.write(PROGRAM)
    stop = f"train.py:{line_of('bar(50)', PROGRAM)}"
    terminal = directory.run("--stop-at", stop, "--", sys.executable, "train.py")
    wait_for_prompt(terminal, line_of("bar(50)", PROGRAM))
    terminal.send("n")
    wait_for_prompt(terminal, line_of("bar(50)", PROGRAM) + 1)
    terminal.send(DETACH)
    terminal.wait_for("Enter")
    half = "\n 50% |" + "#" * 66 + "|"
    terminal.wait_for(re.compile(rf"begins True False\n 10% .*Enter.*{re.escape(half)}", re.DOTALL))
    directory.attach("continue", "all")
    terminal.resize(20, 100)
    terminal.wait_for("resized os.terminal_size(columns=100, lines=20)")
    terminal.wait_for("100% |" + "#" * 92 + "|")
    terminal.send(b"\x03")
    assert terminal.exit_status() == 128 + signal.SIGINT
    (output,) = directory.outputs()
    written = output.read_bytes()
    assert b"\r 10% |#############|" in written
    assert b"\r 50% |##############" in written
    assert b"\x1bD" not in written
    assert b"Enter" not in written


def test_without_one_the_job_writes_to_its_file(directory: Directory) -> None:
    directory.write("import sys\nprint('begins', sys.stdout.isatty())\n")
    terminal = directory.run("--no-pty", "--", sys.executable, "train.py")
    assert terminal.exit_status() == 0
    assert "begins False" in text_of(terminal)
