"""Ranks in real process groups: what they report of their collectives, and how long they may be stopped."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dbg_agent.torch.flight_recorder import FEW_ENTRIES
from dbg_wire.records.evidence import CollectiveSeen, Evidence, GroupSeen
from tests.support.broker import running_broker
from tests.support.evidence import ask_until, completed, unfinished
from tests.support.launchers import torchrun
from tests.support.processes import Child, Processes
from tests.support.ranks import attach, attach_list, wait_until_states, wait_until_stopped
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

TORCH_SECONDS = 90.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""

pytestmark = pytest.mark.timeout(seconds(2 * TORCH_SECONDS))

OWN_SECONDS = 5
"""Timeout in seconds that the script gives its groups: two ranks connect sooner, even on a busy machine."""


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


@needs_torch
def test_a_rank_stays_stopped_for_longer_than_the_timeout_of_its_group(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    job = start(processes, home, SCRIPT, "--collective-timeout", "3600")
    stop_for_longer_than_the_group_waits(job)
    stopped = next(rank for rank in attach_list(home) if rank["rank"] == 0)
    assert stopped["state"] == "stopped"
    for output in (job.text("stderr"), attach(home, "list").stdout):
        assert "60 min" in output
    assert attach(home, "continue", "0").returncode == 0
    assert job.wait(seconds(30)) == 0
    during, own = ["1:00:00"] * 2, ["0:00:05"] * 2
    assert sorted(job.text().splitlines()[1:]) == [f"rank {rank}: sum 2, {during} and then {own}" for rank in (0, 1)]


@needs_torch
def test_the_breakpoint_of_torch_stops_one_rank_in_the_caller_and_holds_the_other(
    processes: Processes, home: Path
) -> None:
    running_broker(processes, home)
    path = home / "train.py"
    path.write_text(BREAKPOINT)
    job = processes.start(
        "torchrun", torchrun(2, "-m", "dbg_agent", str(path)), env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    listed = wait_until_states(home, {0: "stopped", 1: "held"}, seconds(TORCH_SECONDS))
    line = BREAKPOINT.splitlines().index("        dist.breakpoint(rank=0, skip=3)") + 1
    there = {"file": str(home / "train.py"), "line": line, "function": "train"}
    assert [rank["where"] for rank in listed] == [there, there]
    assert attach(home, "continue", "0").returncode == 0
    assert job.wait(seconds(30)) == 0
    assert sorted(job.text().splitlines()) == [f"rank {rank}: step 3, sum 2" for rank in (0, 1)]


COMPILED = """\
import pdb
import pudb
import torch

def forward(loss):
    loss = loss * 2
    pdb.set_trace()
    pudb.set_trace()
    torch.distributed.breakpoint()
    breakpoint()
    return loss + 1

print(torch.compile(forward, backend="eager")(torch.ones(1)).item(), flush=True)
"""


@needs_torch
def test_a_stop_in_a_compiled_function_is_in_its_own_frame(processes: Processes, home: Path) -> None:
    running_broker(processes, home)
    path = home / "train.py"
    path.write_text(COMPILED)
    job = processes.start("train", [sys.executable, "-W", "error", "-m", "dbg_agent", str(path)], env={**os.environ})
    lines = COMPILED.splitlines()
    for line in range(lines.index("    pdb.set_trace()") + 1, lines.index("    breakpoint()") + 2):
        (stopped,) = wait_until_stopped(home, 1, seconds(TORCH_SECONDS))
        assert stopped["where"]["line"] == line
        assert "forward" in stopped["where"]["function"]
        assert "2" in attach(home, "eval", "0", "loss").stdout
        assert attach(home, "continue", "0").returncode == 0
    assert job.wait(seconds(30)) == 0
    assert job.text("stderr").count("Warning") == 0


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


@needs_torch
def test_an_expression_that_waits_for_other_ranks_is_refused_and_later_ones_are_answered(
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
    assert "no answer in 3 s" in ask("0", "wait_for_the_other()", "--timeout", "3")
    assert "no answer in 1 s" in ask("0", "rank", "--timeout", "1")
    assert "train.py" in attach(home, "where", "0").stdout
    ask("1", "store.set('later', b'now')")
    job.wait_for_output("waits no longer", seconds(20))
    assert "1 of 1 rank answered, 1 value" in ask("0", "rank")
    # A rank ends soon afterwards by os._exit, perhaps before its answer is sent.
    attach(home, "continue", "all", "--yes")
    assert job.wait(seconds(30)) == 0
    assert job.text().count("together") == 2


MANY = 2 * FEW_ENTRIES
"""Collectives before the first step: so many that they are read only because the ranks wait."""

# Rank 2 comes last to each step, when the test lets it. Rank 1 has no recorder.
TORCH_SCRIPT = f"""\
import os
import sys

rank = int(os.environ["RANK"])
if rank == 1:
    os.environ["TORCH_FR_BUFFER_SIZE"] = "0"

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

def wait_for(step):
    open(f"{{sys.argv[1]}}/{{step}}{{rank}}").read()

def start_sum():
    return dist.all_reduce(torch.ones(2), async_op=True)

dist.init_process_group("gloo")
pair = dist.new_group([0, 2], group_desc="pair")
mesh = init_device_mesh("cpu", (3, 1), mesh_dim_names=("dp", "tp"))
for _ in range({MANY}):
    dist.all_reduce(torch.ones(2))
if rank == 2:
    wait_for("missing")
dist.all_reduce(torch.ones(3, 5))
if rank == 0:
    dist.recv(torch.ones(7), 2, group=pair)
if rank == 2:
    wait_for("partner")
    dist.send(torch.ones(7), 0, group=pair)
dist.barrier()
if rank == 2:
    wait_for("late")
start_sum().wait()
wait_for("end")
"""


def pipes(folder: Path, *names: str) -> Path:
    """Make named pipes at which ranks wait."""
    for name in names:
        os.mkfifo(folder / name)
    return folder


def release(path: Path) -> None:
    """Let the rank continue that waits at this pipe."""
    path.write_text("")


def group_of(evidence: Evidence, collective: CollectiveSeen) -> GroupSeen:
    """Return the group of a collective."""
    return next(group for group in evidence.groups if group.name == collective.group)


def the_only_one(evidence: Evidence, name: str) -> CollectiveSeen:
    """Return the only unfinished collective, which has this name."""
    found = unfinished(evidence)
    assert [one.name for one in found] == [name]
    return found[0]


@needs_torch
def test_ranks_of_torch_report_their_collectives(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = home / "train.py"
    script.write_text(TORCH_SCRIPT)
    steps = pipes(tmp_path, "missing2", "partner2", "late2", "end0", "end1", "end2")
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes.start("ranks", torchrun(3, "-m", "dbg_agent", str(script), str(steps)), env=env)

    ask_until(home, 3, missing_rank_is_reported, TORCH_SECONDS)
    release(steps / "missing2")
    ask_until(home, 3, partner_is_reported, seconds(30))
    release(steps / "partner2")
    ask_until(home, 3, place_is_reported, TORCH_SECONDS)
    release(steps / "late2")
    ask_until(home, 3, end_is_reported, seconds(30))


def missing_rank_is_reported(seen: dict[int, Evidence]) -> None:
    """Check what is reported while rank 2 has not come to the all_reduce after the first ones."""
    waits, blind = (the_only_one(seen[rank], "all_reduce") for rank in (0, 1))
    assert (waits.sequence, waits.shapes, waits.types, waits.size) == (MANY + 1, "[3, 5]", "float32", 60)
    assert waits.timeout == 1800
    assert waits.age is not None
    assert 0 <= waits.age < TORCH_SECONDS
    assert (blind.sequence, blind.shapes, blind.types, blind.age) == (MANY + 1, "[3, 5]", "float32", None)
    group = group_of(seen[0], waits)
    assert (group.title, group.members, group.size, group.backend) == ("default", "0-2", 3, "gloo")
    assert [group_of(seen[rank], one).enqueued for rank, one in ((0, waits), (1, blind))] == [MANY + 1] * 2
    assert blind.group == waits.group
    assert not unfinished(seen[2])
    assert [(one.name, one.sequence) for one in completed(seen[2])] == [("all_reduce", MANY)]
    assert {group.title: group.members for group in seen[2].groups} == {"default": "0-2", "pair": "0,2", "mesh_tp": "2"}
    assert [seen[rank].sources[0].limitation for rank in (0, 2)] == ["", ""]
    assert seen[1].sources[0].limitation.startswith("TORCH_FR_BUFFER_SIZE=0 ")


def partner_is_reported(seen: dict[int, Evidence]) -> None:
    """Check what is reported while rank 0 receives from rank 2, which does not send."""
    receives = the_only_one(seen[0], "recv")
    assert (receives.peer, receives.is_receive, receives.shapes) == (2, True, "[7]")
    group = group_of(seen[0], receives)
    assert (group.title, group.members) == ("pair", "0,2")
    assert the_only_one(seen[1], "barrier").sequence == MANY + 2
    assert not unfinished(seen[2])


def place_is_reported(seen: dict[int, Evidence]) -> None:
    """Check what is reported while rank 0 waits for what it has called elsewhere."""
    called = the_only_one(seen[0], "all_reduce").place
    assert called is not None
    assert (called.function, Path(called.file).name) == ("start_sum", "train.py")


def end_is_reported(seen: dict[int, Evidence]) -> None:
    """Check what is reported once all is over."""
    for rank in (0, 2):
        assert not unfinished(seen[rank])
        last = completed(seen[rank])
        assert [(one.name, one.sequence) for one in last] == [("all_reduce", MANY + 3)]
        group = group_of(seen[rank], last[0])
        assert (group.enqueued, group.completed) == (MANY + 3, MANY + 3)
