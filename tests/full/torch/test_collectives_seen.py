"""What ranks in real process groups tell of their collectives: torch with gloo, and mpirun with mpi4py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from dbg_agent.evidence.flight_recorder import FEW_ENTRIES
from dbg_wire.records.evidence import CollectiveSeen, Evidence, GroupSeen
from tests.support.broker import running_broker
from tests.support.evidence import ask_until, completed, unfinished
from tests.support.launchers import mpirun, torchrun
from tests.support.processes import Processes
from tests.support.ranks import attach
from tests.support.requirements import needs_mpi4py, needs_torch
from tests.support.time_unit import seconds

TORCH_SECONDS = 90.0
"""Seconds for launcher and ranks to import torch: 10 on two idle cores, several times that beside other tests."""

pytestmark = pytest.mark.timeout(seconds(2 * TORCH_SECONDS))

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
wait_for("end")
"""

MPI_SCRIPT = """\
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
rank = world.Get_rank()

def wait_for(step):
    open(f"{sys.argv[1]}/{step}{rank}").read()

def train():
    part = world.Split(0, rank)
    part.Set_name("part")
    # The first one of a communicator makes another communicator, and holds Python's lock while it waits for that.
    part.allreduce(rank)
    if rank == 1:
        wait_for("missing")
    total = part.allreduce(rank, op=MPI.SUM)
    if rank == 1:
        world.send(total, dest=0, tag=11)
    if rank == 0:
        total = world.recv(source=1, tag=12)
    wait_for("partner")
    if rank == 1:
        world.send(total, dest=0, tag=12)

train()
"""


def pipes(folder: Path, *names: str) -> Path:
    """Make named pipes at which ranks wait."""
    for name in names:
        os.mkfifo(folder / name)
    return folder


def let_go(path: Path) -> None:
    """Let the rank go on that waits at this pipe."""
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
def test_ranks_of_torch_tell_who_is_where(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = home / "train.py"
    script.write_text(TORCH_SCRIPT)
    steps = pipes(tmp_path, "missing2", "partner2", "end0", "end1", "end2")
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes.start("ranks", torchrun(3, "-m", "dbg_agent", str(script), str(steps)), env=env)

    ask_until(home, 3, missing_rank_is_told, TORCH_SECONDS)
    let_go(steps / "missing2")
    ask_until(home, 3, partner_is_told, seconds(30))
    let_go(steps / "partner2")
    ask_until(home, 3, end_is_told, seconds(30))


def missing_rank_is_told(told: dict[int, Evidence]) -> None:
    """Check what is told while rank 2 has not come to the all_reduce after the first ones."""
    waits, blind = (the_only_one(told[rank], "all_reduce") for rank in (0, 1))
    assert (waits.sequence, waits.shapes, waits.types, waits.size) == (MANY + 1, "[3, 5]", "float32", 60)
    assert waits.timeout == 1800
    assert waits.age is not None
    assert 0 <= waits.age < TORCH_SECONDS
    assert (blind.sequence, blind.shapes, blind.types, blind.age) == (MANY + 1, "[3, 5]", "float32", None)
    group = group_of(told[0], waits)
    assert (group.title, group.members, group.size, group.backend) == ("default", "0-2", 3, "gloo")
    assert [group_of(told[rank], one).enqueued for rank, one in ((0, waits), (1, blind))] == [MANY + 1] * 2
    assert blind.group == waits.group
    assert not unfinished(told[2])
    assert [(one.name, one.sequence) for one in completed(told[2])] == [("all_reduce", MANY)]
    assert {group.title: group.members for group in told[2].groups} == {"default": "0-2", "pair": "0,2", "mesh_tp": "2"}
    assert [told[rank].sources[0].lack for rank in (0, 2)] == ["", ""]
    assert told[1].sources[0].lack.startswith("TORCH_FR_BUFFER_SIZE=0 ")


def partner_is_told(told: dict[int, Evidence]) -> None:
    """Check what is told while rank 0 receives from rank 2, which does not send."""
    receives = the_only_one(told[0], "recv")
    assert (receives.peer, receives.is_receive, receives.shapes) == (2, True, "[7]")
    group = group_of(told[0], receives)
    assert (group.title, group.members) == ("pair", "0,2")
    assert the_only_one(told[1], "barrier").sequence == MANY + 2
    assert not unfinished(told[2])


def end_is_told(told: dict[int, Evidence]) -> None:
    """Check what is told once all is over."""
    for rank in (0, 2):
        assert not unfinished(told[rank])
        last = completed(told[rank])
        assert [(one.name, one.sequence) for one in last] == [("barrier", MANY + 2)]
        group = group_of(told[rank], last[0])
        assert (group.enqueued, group.completed) == (MANY + 2, MANY + 2)


@needs_mpi4py
def test_ranks_of_mpi_tell_what_their_code_calls(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = home / "train.py"
    script.write_text(MPI_SCRIPT)
    steps = pipes(tmp_path, "missing1", "partner0", "partner1")
    command = mpirun(2, sys.executable, "-m", "dbg_agent", str(script), str(steps))
    processes.start("mpirun", command, env={**os.environ, "DBG_HOME": str(home)})

    ask_until(home, 2, missing_process_is_told, seconds(30))
    let_go(steps / "missing1")
    ask_until(home, 2, missing_send_is_told, seconds(30))
    # It has sent, with another tag: that it has not is not known.
    told = attach(home, "why", "--json")
    (verdict,) = (one for one in json.loads(told.stdout)["verdicts"] if one["kind"] == "partner")
    assert (told.returncode, verdict["ranks"], verdict["others"]) == (1, "1", "0")
    assert "in recv of MPI_COMM_WORLD (tag 12)" in verdict["sentence"]
    assert "has no send with tag 12" in verdict["sentence"]
    assert "waits in recv of MPI_COMM_WORLD (tag 12) from rank 1" in attach(home, "where", "all").stdout
    let_go(steps / "partner1")


def missing_process_is_told(told: dict[int, Evidence]) -> None:
    """Check what is told while rank 1 has not come to the second allreduce."""
    waits = the_only_one(told[0], "allreduce")
    group = group_of(told[0], waits)
    assert (group.title, group.members, group.size, group.backend) == ("part", "0-1", 2, "mpi")
    assert "counts no calls" in told[0].sources[0].lack
    assert not told[1].collectives


def missing_send_is_told(told: dict[int, Evidence]) -> None:
    """Check what is told while rank 0 receives from rank 1, which has sent with another tag."""
    receives = the_only_one(told[0], "recv")
    assert (receives.peer, receives.is_receive, receives.sequence, receives.tag) == (1, True, None, 12)
    assert group_of(told[0], receives).title == "MPI_COMM_WORLD"
    assert not told[1].collectives
