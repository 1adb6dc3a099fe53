"""``dbg-attach run --hang-after``: a job that hangs reports the cause by itself."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from dbg_client.run.start import HUNG_STATUS
from tests.support.launchers import torchrun
from tests.support.processes import Child
from tests.support.ranks import attach
from tests.support.requirements import needs_torch
from tests.support.runs import Directory
from tests.support.time_unit import seconds

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


def in_batch(directory: Directory, *options: str) -> Child:
    """Start a run without a terminal, as a batch script does."""
    return directory.processes.start("run", directory.command(*options), env=directory.variables)


def reports(directory: Directory) -> list[Path]:
    """Return the reports that are kept."""
    return sorted(directory.home.glob("runs/*/*.hang*.txt"))


def test_a_hung_job_in_a_batch_script_is_reported_and_ended(directory: Directory) -> None:
    prepare(directory)
    run = in_batch(directory, "--hang-after", "2", "--on-hang", "end", "--", sys.executable, "train.py")

    assert run.wait(seconds(60)) == HUNG_STATUS
    printed = run.text()
    (report,) = reports(directory)
    assert str(report) in printed
    assert "--on-hang end" in printed
    text = report.read_text()
    assert "wait_for_shard train.py:" in text
    assert "\n  begins\n" in text
    again = attach(directory.home, "why", str(report))
    assert again.returncode == 1
    sentence = again.stdout.split("\n")[0]
    assert "first" in sentence
    assert sentence in text
    assert sentence in printed
    # The home is all that is left of the run.
    kept = attach(directory.home, "why", str(directory.home))
    assert kept.stdout.startswith(again.stdout)


# Rank 1 waits at a pipe; the others wait for it in a collective that has a time limit of its own.
TORCH_PROGRAM = """\
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
# Once this group is made all ranks are there, so that its limit is none for their start.
group = dist.new_group(timeout=timedelta(seconds=float(sys.argv[1])))

def wait_for_shard():
    return open("first").read()

def train_step(step):
    if step == 2 and dist.get_rank() == 1:
        wait_for_shard()
    dist.all_reduce(torch.ones(3), group=group)

for step in range(4):
    train_step(step)
    print("step", step, flush=True)
"""

TORCH_SECONDS = 90.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""


@needs_torch
@pytest.mark.timeout(seconds(3 * TORCH_SECONDS))
def test_a_job_of_torchrun_is_ended_with_all_its_ranks(directory: Directory) -> None:
    prepare(directory, TORCH_PROGRAM)
    run = in_batch(directory, "--hang-after", "4", "--on-hang", "end", "--", *torchrun(3, "train.py", "600"))
    assert run.wait(seconds(2 * TORCH_SECONDS)) == HUNG_STATUS
    assert re.search(r"rank 1 .* all_reduce #3 of group 1: ", run.text())
    assert directory.left_behind() == []
