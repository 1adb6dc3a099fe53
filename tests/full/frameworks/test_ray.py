"""Jobs of the real Ray: which processes are ranks, which are children with names, and for whom the driver waits."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.console import agree, steps
from tests.docs.pages import ROOT, blocks, played
from tests.support.broker import running_broker
from tests.support.processes import Child, Processes
from tests.support.ranks import attach, wait_until
from tests.support.requirements import needs_ray, needs_torch
from tests.support.time_unit import seconds

pytestmark = [needs_ray, pytest.mark.timeout(seconds(400))]

PATIENCE = seconds(150)
"""Seconds until all processes of Ray have started: 15 on two idle cores."""

DRIVER = ""
"""The name of a program that Ray has not started."""

BEGIN = """\
import os, sys
import ray

ray.init(num_cpus=4, object_store_memory=100_000_000, include_dashboard=False)
fifo = sys.argv[1]
"""

ACTORS = f"""{BEGIN}
@ray.remote(num_cpus=0)
class Tool:
    def call_tool(self, name):
        return open(name).read() if name else ""

tools = [Tool.remote() for _ in range(2)]
ray.get([tool.call_tool.remote(name) for tool, name in zip(tools, ["", fifo])])
"""

GROUPS = f"""{BEGIN}
@ray.remote(num_cpus=0)
class Worker:
    def __init__(self, rank, world, port):
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    def update(self):
        open(fifo).read()

workers = [Worker.remote(rank, 2, port) for port in (29501, 29502) for rank in range(2)]
ray.get([worker.update.remote() for worker in workers])
"""

PAGE = ROOT / "docs/clusters/ray.md"

FEW = "import ray; ray.init(num_cpus=4, object_store_memory=100_000_000, include_dashboard=False); "
"""What a driver does first here, in front of its first line."""

TRAINER = FEW + next(block.text for block in blocks(PAGE.read_text()) if block.language == "python")


class Job:
    """A job of Ray under ``dbg-attach run``; its actors wait until ``fifo`` is written."""

    def __init__(self, processes: Processes, home: Path, folder: Path, source: str) -> None:
        self.home, self.fifo = home, folder / "data"
        running_broker(processes, home)
        os.mkfifo(self.fifo)
        script = folder / "train.py"
        script.write_text(source)
        self.temporary = Path(tempfile.mkdtemp(prefix="ray"))
        """Ray's sockets are in it, whose paths may have 107 bytes."""
        run = str(Path(sys.executable).with_name("dbg-attach"))
        command = [run, "run", "--", sys.executable, str(script), str(self.fifo)]
        # Ray Train keeps its results below HOME.
        own = {
            "DBG_HOME": str(home),
            "DBG_HOST": "gpu013",
            "RAY_TMPDIR": str(self.temporary),
            "HOME": str(self.temporary),
        }
        self.process: Child = processes.start("run", command, env={**os.environ, **own})

    def wait_for(self, ranks: Counter[int], names: Counter[str]) -> list[dict[str, Any]]:
        """Wait until these ranks are listed, and processes of these names that are none, among others."""

        def is_there(listed: list[dict[str, Any]]) -> bool:
            numbered = Counter(one["rank"] for one in listed if one["child"] is None)
            named = Counter(one["name"] for one in listed if one["child"] is not None)
            return numbered == ranks and not names - named

        return wait_until(self.home, is_there, f"{ranks} and {names}", timeout=PATIENCE)

    def why(self) -> list[dict[str, Any]]:
        verdicts: list[dict[str, Any]] = json.loads(attach(self.home, "why", "--json").stdout)["verdicts"]
        return verdicts


@pytest.fixture
def job(request: pytest.FixtureRequest, processes: Processes, home: Path, tmp_path: Path) -> Iterator[Job]:
    """The job whose source is the parameter; if its actors wait for ``fifo``, it ends by itself, with all of Ray."""
    job = Job(processes, home, tmp_path, request.param)
    yield job
    # A writer that comes and goes ends the waits of all readers.
    os.close(os.open(job.fifo, os.O_RDWR))
    if not job.process.ends_within(seconds(20)):
        job.process.terminate()
    shutil.rmtree(job.temporary, ignore_errors=True)


@pytest.mark.parametrize("job", [ACTORS], indirect=True, ids=[""])
def test_actors_are_named_children_and_the_driver_waits_for_one(job: Job) -> None:
    listed = job.wait_for(Counter([0]), Counter(["Tool", "Tool"]))
    pids = {one["pid"] for one in listed if one["child"] is not None}
    while not any((verdict["kind"], verdict["ranks"]) == ("waiting", "0") for verdict in job.why()):
        # At first the driver may still be on its way to ray.get.
        pass
    (verdict,) = job.why()
    assert any(str(pid) in verdict["sentence"] for pid in pids)


@pytest.mark.parametrize("job", [GROUPS], indirect=True, ids=[""])
def test_actors_that_number_themselves_are_ranks_and_the_driver_is_not(job: Job) -> None:
    job.wait_for(Counter([0, 1, 0, 1]), Counter([DRIVER]))
    assert {verdict["ranks"] for verdict in job.why()} == {"0-1"}


@needs_torch
@pytest.mark.parametrize("job", [TRAINER], indirect=True, ids=[""])
def test_workers_of_ray_train_are_the_ranks_and_one_has_not_reached_a_report(job: Job) -> None:
    job.wait_for(Counter([0, 1]), Counter([DRIVER, "TrainController", "SynchronizationActor"]))
    facts = {"kind": "missing", "ranks": "1", "others": "0", "collective": "train.report", "certainty": "likely"}
    while not any(facts.items() <= verdict.items() for verdict in job.why()):
        # At first both are on their way.
        pass
    (verdict,) = job.why()
    assert verdict["cause"] == "waiting"
    for step in (step for scene in played(PAGE) for block in scene.blocks for step in steps(block.text)):
        printed = attach(job.home, *step.command.split()[1:]).stdout.splitlines()
        assert agree(step.output, printed), printed
