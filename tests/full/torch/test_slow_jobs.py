"""Jobs of torch with gloo in which one rank is late, and one in which nobody is: what `slow` finds."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.scenes import TORCH_SECONDS
from tests.support.broker import running_broker
from tests.support.launchers import torchrun
from tests.support.processes import Child, Processes
from tests.support.ranks import attach, wait_until_states
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

pytestmark = pytest.mark.timeout(seconds(3 * TORCH_SECONDS))

RANKS = 3
LATE = 2

LOOK = "8s"
"""How long ranks look: some thirty steps."""

TORCH_SCRIPT = f"""\
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
is_late = dist.get_rank() == {LATE} and sys.argv[1] == "sleep"

def fetch_batch():
    time.sleep(0.3 if is_late else 0.01)

gradients = torch.zeros(1000)
for step in range(100_000):
    fetch_batch()
    time.sleep(0.1)
    dist.all_reduce(gradients)
    if step == 3:
        print("moves", flush=True)
"""


@pytest.fixture(autouse=True)
def broker(processes: Processes, home: Path) -> None:
    """Serve a broker for each job."""
    running_broker(processes, home)


def start(processes: Processes, home: Path, command: list[str], moving: str = "moves") -> Child:
    """Start a job, and return once all its ranks have made some steps."""
    environ = {**os.environ, "DBG_HOME": str(home), "DBG_JOB": "train", "OMP_NUM_THREADS": "1"}
    job = processes.start("job", command, env=environ)
    job.wait_for_output(rf"(?s)(?:{moving}.*){{{RANKS}}}", seconds(TORCH_SECONDS))
    wait_until_states(home, dict.fromkeys(range(RANKS), "running"), seconds(TORCH_SECONDS))
    return job


def torch(processes: Processes, home: Path, tmp_path: Path, *words: str) -> Child:
    """Start a job of torch."""
    script = tmp_path / "train.py"
    script.write_text(TORCH_SCRIPT)
    launch = torchrun(RANKS, "-m", "dbg_agent")
    return start(processes, home, [*launch, str(script), *words])


def slow(home: Path, *words: str) -> tuple[dict[str, Any], int]:
    """Return the first verdict, and the exit status."""
    done = attach(home, "slow", "--json", "--for", LOOK, "--timeout", str(seconds(30)), *words)
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert (document["asked"], document["answered"]) == (RANKS, RANKS)
    return document["verdicts"][0], done.returncode


def assert_late(verdict: dict[str, Any], status: int) -> None:
    """Check that one rank is named, and nobody else."""
    assert (verdict["kind"], verdict["ranks"], status) == ("late", str(LATE), 1), verdict


@needs_torch
def test_slow_names_a_sleeping_rank_and_its_line(processes: Processes, home: Path, tmp_path: Path) -> None:
    torch(processes, home, tmp_path, "sleep")
    verdict, status = slow(home)
    assert_late(verdict, status)
    assert (verdict["group"], verdict["collective"], verdict["certainty"]) == ("default", "all_reduce", "sure")
    assert verdict["by"] >= 0.25
    assert re.match(rf"meanwhile, rank {LATE} is at fetch_batch train\.py:\d+ in ", verdict["evidence"][0])


@needs_torch
def test_slow_names_no_rank_of_an_even_job(processes: Processes, home: Path, tmp_path: Path) -> None:
    torch(processes, home, tmp_path, "even")
    verdict, status = slow(home)
    assert verdict["kind"] in ("even", "uneven")
    assert (verdict["ranks"], status) == (None, 0)
