"""Ranks in real process groups of torch that stop for longer than the groups would wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.launchers import torchrun
from tests.support.processes import Child, Processes
from tests.support.ranks import attach, attach_list, wait_until_states
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

TORCH_SECONDS = 60.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""

OWN_SECONDS = 5
"""Timeout in seconds that the script gives its groups: two ranks connect sooner, even on a busy machine."""

pytestmark = [
    needs_torch,
    pytest.mark.timeout(seconds(2 * TORCH_SECONDS)),
]

# The groups are connected before a rank stops, so that the time for it does not count.
SCRIPT = f"""\
import os
from datetime import timedelta

import torch
import torch.distributed as dist

from dbg_agent import set_trace, uninstall

def timeouts():
    return [str(group._get_backend(torch.device("cpu")).options._timeout) for group in dist.distributed_c10d._pg_map]

own = timedelta(seconds={OWN_SECONDS})
dist.init_process_group("gloo", timeout=own)
some = dist.new_group([0, 1], timeout=own)
dist.barrier()
rank = dist.get_rank()
if rank == 0:
    set_trace()
else:
    os.write(1, b"rank 1 waits\\n")
total = torch.ones(1)
dist.all_reduce(total, group=some)
during = timeouts()
uninstall()
os.write(1, f"rank {{rank}}: sum {{total.item():.0f}}, {{during}} and then {{timeouts()}}\\n".encode())
"""

BREAKPOINT = """\
import os

from dbg_agent import install

install(classic=True)

import torch
import torch.distributed as dist

def train(rank):
    for step in range(4):
        dist.breakpoint(rank=0, skip=3)
    total = torch.ones(1)
    dist.all_reduce(total)
    os.write(1, f"rank {rank}: step {step}, sum {total.item():.0f}\\n".encode())

dist.init_process_group("gloo")
train(dist.get_rank())
dist.destroy_process_group()
"""


def start(processes: Processes, home: Path, script: str, *options: str) -> Child:
    """Start two ranks of a script by `python -m dbg_agent` with these options."""
    path = home / "train.py"
    path.write_text(script)
    # With the usual one thread per core, two ranks would only wait for each other.
    return processes.start(
        "ranks", torchrun(2, "-m", "dbg_agent", *options, str(path)), env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def stop_for_longer_than_the_group_waits(job: Child) -> None:
    """Return when rank 0 has been stopped for longer than the group's own timeout lets rank 1 wait."""
    job.wait_for_output("rank 1 waits", seconds(TORCH_SECONDS))
    assert not job.ends_within(OWN_SECONDS + 2)


def test_a_rank_is_stopped_for_longer_than_the_groups_own_timeout(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    job = start(processes, home, SCRIPT, "--collective-timeout", "3600")
    stop_for_longer_than_the_group_waits(job)
    stopped = next(rank for rank in attach_list(home) if rank["rank"] == 0)
    assert stopped["state"] == "stopped"
    for told in (job.text("stderr"), attach(home, "list").stdout):
        assert "60 min" in told
    assert attach(home, "continue", "0").returncode == 0
    assert job.wait(seconds(30)) == 0
    during, own = ["1:00:00"] * 2, ["0:00:05"] * 2
    assert sorted(job.text().splitlines()[1:]) == [f"rank {rank}: sum 2, {during} and then {own}" for rank in (0, 1)]


def test_torchs_breakpoint_stops_one_rank_in_its_callers_frame_and_holds_the_other(
    processes: Processes, home: Path
) -> None:
    running_broker(processes, home)
    path = home / "train.py"
    path.write_text(BREAKPOINT)
    job = processes.start("torchrun", torchrun(2, str(path)), env={**os.environ, "OMP_NUM_THREADS": "1"})
    listed = wait_until_states(home, {0: "stopped", 1: "held"}, seconds(TORCH_SECONDS))
    line = BREAKPOINT.splitlines().index("        dist.breakpoint(rank=0, skip=3)") + 1
    there = {"file": str(home / "train.py"), "line": line, "function": "train"}
    assert [rank["where"] for rank in listed] == [there, there]
    assert attach(home, "continue", "0").returncode == 0
    assert job.wait(seconds(30)) == 0
    assert sorted(job.text().splitlines()) == [f"rank {rank}: step 3, sum 2" for rank in (0, 1)]


SHARDED = """\
import os

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

from dbg_agent import set_trace

dist.init_process_group("gloo")
rank = dist.get_rank()
# Torch's dispatcher knows nothing of what waits for a key here.
store = dist.distributed_c10d._get_default_store()
weights = distribute_tensor(torch.arange(8.0).reshape(4, 2), init_device_mesh("cpu", (2,)), [Shard(0)])

def wait_for_the_other():
    try:
        store.get("later")
    finally:
        os.write(1, b"waits no longer\\n")

set_trace()
dist.barrier()
os.write(1, b"together\\n")
os._exit(0)
"""


def test_an_expression_that_would_wait_for_other_ranks_is_refused_and_later_questions_are_answered(
    processes: Processes, home: Path
) -> None:
    running_broker(processes, home)
    job = start(processes, home, SHARDED)
    job.wait_for_output(r"(?s)stopped at.*stopped at", seconds(TORCH_SECONDS), stream="stderr")
    wait_until_states(home, {0: "stopped", 1: "stopped"})

    def ask(target: str, expression: str, *options: str) -> str:
        return attach(home, "eval", target, expression, *options).stdout

    for expression in ("weights.full_tensor()", "(weights @ weights.T).max()", "dist.barrier()"):
        assert "2 ranks" in ask("0", expression)
    assert "DTensor local 2x2 of 4x2" in ask("0", "weights")
    assert "2 of 2 ranks answered, 1 value" in ask("all", "weights.full_tensor().sum().item()")
    stuck = "`wait_for_the_other()`"
    assert stuck in ask("0", "wait_for_the_other()", "--timeout", "3")
    assert stuck in ask("0", "rank")
    assert "train.py" in attach(home, "where", "0").stdout
    ask("1", "store.set('later', b'now')")
    job.wait_for_output("waits no longer", seconds(20))
    assert "1 of 1 rank answered, 1 value" in ask("0", "rank")
    # A rank ends soon afterwards by os._exit, perhaps before its answer is sent.
    attach(home, "continue", "all", "--yes")
    assert job.wait(seconds(30)) == 0
    assert job.text().count("together") == 2
