"""What is left of a real job of torch that hung: its dumps and its report tell the same as its ranks did."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import running_broker
from tests.support.launchers import torchrun
from tests.support.processes import Processes
from tests.support.ranks import attach
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

TORCH_SECONDS = 90.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""

pytestmark = pytest.mark.timeout(seconds(3 * TORCH_SECONDS))

# Where the recorder's watchdog writes dumps of NCCL, the ranks of gloo write theirs when the test lets them.
SCRIPT = """\
import sys
import threading

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as native

dist.init_process_group("gloo")
rank = dist.get_rank()
gradients = torch.ones(7)

def write_dump():
    open(f"{sys.argv[1]}/dump{rank}").read()
    # The form that all releases have; of stacks, the first dump takes seconds.
    data = native._dump_fr_trace(True, rank != 0, False)
    with open(f"{sys.argv[1]}/left/nccl_trace_rank_{rank}", "wb") as file:
        file.write(data)
    print("dumped", flush=True)

def wait_for_shard():
    open(f"{sys.argv[1]}/shard").read()

def train_step(step):
    if step == 3 and rank == 1:
        wait_for_shard()
    dist.all_reduce(gradients)

threading.Thread(target=write_dump, daemon=True).start()
print("begins", flush=True)
for step in range(5):
    train_step(step)
"""


def verdict_in(text: str) -> dict[str, Any]:
    """Return the worst verdict of a document."""
    verdict: dict[str, Any] = json.loads(text)["verdicts"][0]
    return verdict


@needs_torch
def test_dumps_and_report_tell_what_the_ranks_told(processes: Processes, home: Path, tmp_path: Path) -> None:
    broker = running_broker(processes, home)
    script, left = tmp_path / "train.py", tmp_path / "left"
    script.write_text(SCRIPT)
    left.mkdir()
    for name in ("shard", "dump0", "dump1", "dump2"):
        os.mkfifo(tmp_path / name)
    job = processes.start(
        "job",
        torchrun(3, "-m", "dbg_agent", str(script), str(tmp_path)),
        env={**os.environ, "DBG_HOME": str(home), "OMP_NUM_THREADS": "1", "DBG_JOB": "train"},
    )
    job.wait_for_output(r"(?s)(begins.*){3}", seconds(TORCH_SECONDS))
    living = verdict_in(attach(home, "why", "--json").stdout)
    assert (living["kind"], living["ranks"], living["sequence"]) == ("missing", "1", 4)
    report = tmp_path / "report.txt"
    assert attach(home, "report", "-o", str(report)).returncode == 0
    for rank in range(3):
        (tmp_path / f"dump{rank}").write_text("")
    job.wait_for_output(r"(?s)(dumped.*){3}", seconds(TORCH_SECONDS))
    job.terminate()
    broker.kill()

    of_dumps = attach(home, "why", str(left), "--json")
    found = verdict_in(of_dumps.stdout)
    assert of_dumps.returncode == 1
    for name in ("kind", "ranks", "others", "group", "collective", "sequence"):
        assert found[name] == living[name]
    assert any("all_reduce #3, at train.py:" in line for line in found["evidence"])

    of_report = attach(home, "why", str(report), "--json")
    again = verdict_in(of_report.stdout)
    assert (of_report.returncode, again["kind"], again["ranks"]) == (1, "missing", "1")
    assert "wait_for_shard" in "".join(again["evidence"])
    text = report.read_text()
    assert all(told in text for told in (again["sentence"], *again["evidence"]))

    (left / "nccl_trace_rank_1").unlink()
    without = verdict_in(attach(home, "why", str(left), "--json").stdout)
    assert (without["kind"], without["ranks"]) == ("unknown", "1")
