"""``dbg-broker run --hang-after``: a job that stands still says why by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT
from tests.support.launchers import torchrun
from tests.support.requirements import needs_torch
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


TORCH_SECONDS = 60.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""

MISSING_RANK = ROOT / "examples/hangs/missing_rank.py"


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


@needs_torch
@pytest.mark.launcher
@pytest.mark.timeout(seconds(2 * TORCH_SECONDS))
def test_a_job_of_torch_tells_who_is_missing_from_which_collective(directory: Directory) -> None:
    directory.environ = {"OMP_NUM_THREADS": "1"}
    run = subprocess.Popen(
        directory.command("--hang-after", "3", "--", *torchrun(3, str(MISSING_RANK))),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=directory.processes.marked(directory.variables),
        text=True,
    )
    with run:
        assert run.stdout is not None
        lines = iter(run.stdout.readline, "")
        assert any("has moved for 3 s" in line for line in lines)
        verdict = next(lines)
        assert re.search(r": 2 of 3 ranks wait in all_reduce #4 of \S+ .*; rank 2 .*has not come", verdict), verdict

        shown = directory.attach("where")
        assert re.search(r"waits in all_reduce #4 of \S+, 2 of 3 there", shown), shown
        assert re.search(r"^@missing  1 rank  2  not come to all_reduce #4 of \S+$", shown, re.MULTILINE), shown
        groups = json.loads(directory.attach("where", "--json"))["groups"]
        waiting = next(group for group in groups if group["ranks"] == "0-1")
        assert waiting["collective"].items() >= {"name": "all_reduce", "sequence": 4, "there": 2, "of": 3}.items()
        assert waiting["age"] > 2
        assert json.loads(directory.attach("where", "@missing", "--json"))["groups"][0]["ranks"] == "2"
        directory.attach("all", "--kill", "-y")
    assert run.wait(seconds(30)) != 0
