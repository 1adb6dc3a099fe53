"""A crashed rank and its job are kept, and everything ends afterwards as without the debugger."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.smoke.test_hold_and_crash import JOB, wait_until_kept
from tests.support.broker import running_broker
from tests.support.launchers import torchrun
from tests.support.processes import Processes
from tests.support.ranks import (
    ask,
    attach,
    attach_list,
    texts,
)
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

CRASHED = {0: "held", 1: "stopped", 2: "held"}


@needs_torch
@pytest.mark.timeout(seconds(120))
def test_a_crash_does_not_end_a_torchrun_while_it_is_kept(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "train.py"
    script.write_text(JOB)
    job = processes.start("torchrun", torchrun(3, str(script)), env={**os.environ, "OMP_NUM_THREADS": "1"})
    wait_until_kept(home, CRASHED, seconds(60))
    assert texts(ask(home, "eval", "crashed", "batch")) == {"1": "7"}
    assert attach(home, "continue", "crashed").returncode == 0
    assert job.wait(seconds(60)) == 1
    assert not [rank for rank in attach_list(home) if rank["state"] != "exited"]
