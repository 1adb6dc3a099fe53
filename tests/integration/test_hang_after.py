"""``dbg-broker run --hang-after``: a job that stands still says why by itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.support.runs import Directory, text_of
from tests.support.time_unit import seconds

pytestmark = pytest.mark.integration

# A read from a named pipe uses no processor time, and the test ends it.
PROGRAM = """\
import os

def wait_for_shard(name):
    with open(name) as shard:
        return shard.read()

print("begins", end="", flush=True)
for name in ("first", "second"):
    wait_for_shard(name)
print("ends")
"""


def prepare(directory: Directory, source: str = PROGRAM) -> None:
    directory.write(source)
    for name in ("first", "second"):
        os.mkfifo(directory.path / name)


def deliver(directory: Directory, name: str) -> None:
    """End the program's wait."""
    (directory.path / name).write_text("data")


def test_it_is_told_on_the_terminal_and_kept_in_the_output(directory: Directory) -> None:
    prepare(directory)
    terminal = directory.run("--hang-after", "3", "--", sys.executable, "train.py")
    told = re.compile(r"begins\ndbg-broker: no rank of train-\S+ has moved for 3 s\n")
    terminal.wait_for(told)
    terminal.wait_for(re.compile(r"wait_for_shard"))
    deliver(directory, "first")
    terminal.wait_for(lambda seen: text_of(seen).count("has moved for 3 s") == 2)
    deliver(directory, "second")
    assert terminal.exit_status() == 0
    (output,) = directory.outputs()
    kept = output.read_text().replace("\r\n", "\n")
    assert told.match(kept), kept
    assert kept.count("dbg-broker: ") == 2
    assert kept.endswith("ends\n")


def test_it_is_told_without_a_terminal_too(directory: Directory) -> None:
    prepare(directory)
    run = subprocess.Popen(
        directory.command("--hang-after", "2", "--", sys.executable, "train.py"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=directory.processes.marked(directory.variables),
        text=True,
    )
    with run:
        assert run.stdout is not None
        lines = iter(run.stdout.readline, "")
        assert any("has moved for 2 s" in line for line in lines)
        assert any("wait_for_shard" in line for line in lines)
        for name in ("first", "second"):
            deliver(directory, name)
        assert "ends\n" in run.stdout.read()
    assert run.wait(seconds(30)) == 0


def test_a_rank_in_a_debugger_does_not_hang_and_counts_anew_when_it_goes_on(directory: Directory) -> None:
    prepare(directory, PROGRAM.replace('print("begins"', 'breakpoint()\nprint("begins"'))
    terminal = directory.run_to_prompt("--hang-after", "2", "--", sys.executable, "train.py", line=7)
    terminal.send("c")
    terminal.wait_for("has moved for 2 s")
    deliver(directory, "first")
    deliver(directory, "second")
    assert terminal.exit_status() == 0
