"""The recipes of docs/clusters/launchers.md, run as written: with a recipe, the ranks of both hosts take part.

No variable goes from host to host by itself: the remote shells begin with an environment of their own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import Wrap, running_broker
from tests.support.netns import Host
from tests.support.processes import Child, Processes
from tests.support.ranks import NEVER_BOUND_PORTS, attach, attach_list, wait_until
from tests.support.remote_shell import remote_shell, ssh_servers
from tests.support.requirements import needs_mpirun, needs_pdsh, needs_ssh
from tests.support.slurm import Slurm
from tests.support.time_unit import seconds

PAGE = Path(__file__).parents[3] / "docs/clusters/launchers.md"

EVERYWHERE = "0.0.0.0"  # noqa: S104 - of a network of the test's own

JOB_SECONDS = 60.0
"""Seconds that a job may take to end: ``sbatch --wait`` looks every ten seconds."""

TwoHosts = tuple[Host, Host]

# The program starts children as any job does: none of them is a rank.
PROGRAM = """\
import os, subprocess, sys

def train():
    total, n = 0, 4
    for step in range(3):
        total += step
    return total

if sys.argv[1:] != ["child"]:
    for command in (["-c", "pass"], [__file__, "child"]):
        subprocess.run([sys.executable, *command], check=True)
    os.write(1, f"trained to {train()}\\n".encode())
"""

TOTAL = 6
"""The line that adds."""

STOPS = f"train.py:{TOTAL}, step == 1 and 7 %n == 3\ntrain.py:{TOTAL + 1}"
"""Two stops, with all characters that a shell, a list, an assignment or pdsh gives a meaning."""


def recipes(section: str) -> pytest.MarkDecorator:
    """Return a mark that runs a test with each block of commands in a section of the page."""
    found = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, section
    blocks = re.findall(r"^```sh\n(.*?)^```", found[1], re.MULTILINE | re.DOTALL)
    return pytest.mark.parametrize("recipe", blocks, ids=[str(number) for number, _ in enumerate(blocks, start=1)])


def are_stopped(wanted: list[tuple[str, str, int]], listed: list[dict[str, Any]]) -> bool:
    """Tell whether exactly the ``wanted`` ranks (job, address, line) are stopped."""
    stopped = [rank for rank in listed if rank["state"] == "stopped"]
    return [(rank["job"], rank["address"], rank["where"]["line"]) for rank in stopped] == wanted


class Job:
    """A job started by a recipe as ``run`` starts its command, with the hosts and the program of the test."""

    def __init__(self, processes: Processes, home: Path, folder: Path, wrap: Wrap = list) -> None:
        self.processes = processes
        self.home = home
        self.wrap = wrap
        self.program = folder / "train.py"
        self.program.write_text(PROGRAM)

    def start(self, recipe: str, environ: Mapping[str, str], **variables: str) -> Child:
        """Start the recipe with the variables that ``run`` would set, and with ``variables``."""
        python = f"{sys.executable} {self.program}"
        port = str(next(NEVER_BOUND_PORTS))
        for name, ours in (("gpu01", "h1"), ("gpu02", "h2"), ("python train.py", python), ("29500", port)):
            recipe = recipe.replace(name, ours)
        set_by_run = {"DBG_AUTOSTART": str(os.getpid()), "DBG_HOME": str(self.home), "DBG_JOB": "train-1", **variables}
        env = {**environ, **set_by_run}
        return self.processes.start("job", self.wrap(["bash", "-c", recipe]), env=env, cwd=self.program.parent)

    def stops_at(self, job: Child, addresses: list[str], *, others: int = 0) -> None:
        """Wait until these ranks have been at both stops; fail if another registered or the job does not end well.

        So many ``others`` train without a stop.
        """
        # If a launcher lost the condition, the first stop would come in every step.
        for line in (TOTAL, TOTAL + 1):
            wanted = [("train-1", address, line) for address in addresses]
            wait_until(self.home, partial(are_stopped, wanted), f"stops of {wanted}", wrap=self.wrap)
            assert attach(self.home, "continue", "all", wrap=self.wrap).returncode == 0
        assert job.wait(seconds(JOB_SECONDS)) == 0, job.tail()
        assert self.all_ever() == addresses
        assert self.output(job).count("trained to 3") == len(addresses) + others

    def output(self, job: Child) -> str:
        """Return the output of the ranks, also where sbatch wrote it to a file."""
        return "".join([job.text(), *(file.read_text() for file in self.program.parent.glob("slurm-*.out"))])

    def all_ever(self) -> list[str]:
        """Return the addresses of all ranks that have registered since the broker started."""
        return sorted(rank["address"] for rank in attach_list(self.home, "--all", wrap=self.wrap))


@pytest.fixture
def job(two_hosts: TwoHosts, processes: Processes, home: Path, tmp_path: Path) -> Job:
    """A job on two hosts, started on the first, with the broker there."""
    wrap = two_hosts[0].command
    running_broker(processes, home, listen=EVERYWHERE, wrap=wrap)
    return Job(processes, home, tmp_path, wrap)


@pytest.fixture
def mpirun_environment(two_hosts: TwoHosts, processes: Processes, tmp_path: Path) -> dict[str, str]:
    """Variables for mpirun as root on one core, with a remote shell to the other host: recipes do not set them."""
    return dict(os.environ) | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_plm_rsh_agent": str(remote_shell(tmp_path, two_hosts, processes)),
        "OMPI_MCA_oob_tcp_if_include": "eth0",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }


@needs_mpirun
@recipes("mpirun of Open MPI")
def test_mpirun(job: Job, mpirun_environment: dict[str, str], recipe: str) -> None:
    job.stops_at(job.start(recipe, mpirun_environment, DBG_STOP_AT=STOPS), ["h1:0", "h2:1"])


@pytest.fixture
def ssh_environment(two_hosts: TwoHosts, processes: Processes, tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH begins with an ssh that gets into both hosts."""
    commands = ssh_servers(tmp_path, two_hosts, processes)
    return dict(os.environ) | {"PATH": f"{commands}:{os.environ['PATH']}"}


@needs_ssh
@recipes("ssh")
def test_ssh(job: Job, ssh_environment: dict[str, str], recipe: str) -> None:
    job.stops_at(job.start(recipe, ssh_environment, DBG_STOP_AT=STOPS), ["h1:0", "h2:1"])


@needs_ssh
@needs_pdsh
@recipes("pdsh")
def test_pdsh(job: Job, ssh_environment: dict[str, str], recipe: str) -> None:
    job.stops_at(job.start(recipe, ssh_environment, DBG_STOP_AT=STOPS), ["h1:0", "h2:1"])


BATCH = """\
#!/bin/sh
#SBATCH --export=NONE
#SBATCH --nodes=2
#SBATCH --ntasks=2
srun {python} {program}
"""


@pytest.fixture
def cluster_job(slurm: Slurm, processes: Processes, home: Path, tmp_path: Path) -> Job:
    """A job for the emulated nodes of one host, with the broker on its loopback, and a batch script for it."""
    assert slurm.configuration.exists()
    running_broker(processes, home)
    job = Job(processes, home, tmp_path)
    (tmp_path / "job.sbatch").write_text(BATCH.format(python=sys.executable, program=job.program))
    return job


@recipes("srun and sbatch")
def test_slurm(cluster_job: Job, slurm: Slurm, recipe: str) -> None:
    started = cluster_job.start(recipe, slurm.environment(), DBG_STOP_AT=STOPS)
    cluster_job.stops_at(started, ["node1:0", "node2:1"])
