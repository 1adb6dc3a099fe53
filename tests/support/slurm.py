"""A SLURM cluster of two emulated nodes on this machine, its daemons children of the tests.

The cluster starts in about a second. It needs root, but no systemd, no cgroups, no database, and no SLURM or munge that
runs on the machine: configuration, key, sockets and logs are in a folder of the tests. The nodes share a host name, so
``SLURMD_NODENAME`` tells them apart.
"""

from __future__ import annotations

import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.processes import Processes
from tests.support.requirements import SYSTEM_PATH, missing_for_slurm
from tests.support.time_unit import seconds

NODES = ("node1", "node2")

PORTS_FROM = 20000
PORTS_TO = 30000
"""SLURM's daemons can't take a free port and report it: the configuration names the ports. The search for free ones is
below Linux's ephemeral range (from 32768), so that no process gets one by port 0 before the daemons start."""

LOOK_AGAIN = 0.05
"""Seconds between two questions to the controller, which does not notify of changes."""

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
CommunicationParameters=NoInAddrAny
# Seconds from SIGTERM to SIGKILL of a cancelled job; the usual 30 would only lengthen the tests.
KillWait=2
{nodes}
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""

# More CPUs than the machine has: ranks that wait at a breakpoint need none.
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=64 RealMemory=4000 State=UNKNOWN"


class Slurm:
    """The running cluster, as one test uses it."""

    def __init__(self, configuration: Path) -> None:
        self.configuration = configuration

    def environment(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return ``environ`` (this process's, if None) such that SLURM's commands talk to this cluster."""
        base = dict(os.environ if environ is None else environ)
        return base | {"SLURM_CONF": str(self.configuration), "PATH": f"{base.get('PATH', '')}:{SYSTEM_PATH}"}

    def run(self, *command: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run one of SLURM's commands until it ends, with its output captured."""
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env=self.environment(env),
            timeout=seconds(60),
        )

    def srun(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("srun", *arguments)

    def sbatch(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Submit a batch script and return the job's number at once."""
        answer = self.run("sbatch", "--parsable", *arguments, env=env)
        if answer.returncode != 0:
            raise AssertionError(f"sbatch ended with status {answer.returncode}: {answer.stderr}")
        return answer.stdout.strip()

    def wait_for_job(self, job: str) -> int:
        """Wait until a batch job has ended and return its exit status; ``sbatch --wait`` would look only every 10 s."""
        deadline = time.monotonic() + seconds(60)
        while True:
            shown = self.run("scontrol", "--oneliner", "show", "job", job).stdout
            state = re.search(r"JobState=(\S+)", shown)
            if state and state.group(1) not in {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING"}:
                status = re.search(r"ExitCode=(\d+):", shown)
                return int(status.group(1)) if status else -1
            if time.monotonic() > deadline:
                raise AssertionError(f"job {job} has not ended: {shown}")
            time.sleep(LOOK_AGAIN)

    def wait_for_file(self, path: Path) -> None:
        deadline = time.monotonic() + seconds(60)
        while not path.exists():
            if time.monotonic() > deadline:
                raise AssertionError(f"no job has written {path}")
            time.sleep(LOOK_AGAIN)

    def cancel_all(self) -> None:
        """Cancel every job and return when the nodes are free again."""
        self.run("scancel", "--user=root").check_returncode()
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        deadline = time.monotonic() + seconds(30)
        while (states := self._states()) != {"idle"}:
            if time.monotonic() > deadline:
                raise AssertionError(f"the nodes of the cluster are {', '.join(sorted(states))}, not idle")
            time.sleep(LOOK_AGAIN)

    def _states(self) -> set[str]:
        answer = self.run("sinfo", "-h", "-o", "%T")
        return set(answer.stdout.split()) if answer.returncode == 0 else {"unreachable"}


def _free_ports(count: int) -> list[int]:
    """Return ``count`` ports in a row that were free just now."""
    for _ in range(100):
        first = random.SystemRandom().randrange(PORTS_FROM, PORTS_TO - count)
        ports = list(range(first, first + count))
        if all(_is_free(port) for port in ports):
            return ports
    raise AssertionError(f"no {count} free ports in a row between {PORTS_FROM} and {PORTS_TO}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - slurmctld binds it so; nothing listens here
        except OSError:
            return False
    return True


def _write_configuration(folder: Path) -> Path:
    host = socket.gethostname().split(".")[0]
    controller_port, *node_ports = _free_ports(1 + len(NODES))
    nodes = [NODE.format(name=name, host=host, port=port) for name, port in zip(NODES, node_ports, strict=True)]
    for name in NODES:
        (folder / "spool" / name).mkdir(parents=True)
    (folder / "state").mkdir()
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(host=host, controller_port=controller_port, folder=folder, nodes="\n".join(nodes))
    )
    return configuration


def _start_munge(processes: Processes, folder: Path) -> None:
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    options = [f"--{option}={folder}/munge.{suffix}" for option, suffix in files.items()]
    # With --force munged accepts, with a warning, a folder that only root can enter.
    command = [_command("munged"), "--foreground", "--force", f"--key-file={key}", *options]
    munged = processes.start("munged", command, death_signal="TERM")
    munged.wait_for_output("Created .* work threads", stream="stderr")


def _command(name: str) -> str:
    return shutil.which(name) or str(shutil.which(name, path=SYSTEM_PATH))


def _start_daemons(processes: Processes, cluster: Slurm) -> None:
    configuration = str(cluster.configuration)
    commands: dict[str, Sequence[str]] = {"slurmctld": ["slurmctld", "-D", "-c", "-f", configuration]}
    for node in NODES:
        commands[f"slurmd-{node}"] = ["slurmd", "-D", "-N", node, "-f", configuration]
    for name, (program, *arguments) in commands.items():
        processes.start(name, [_command(program), *arguments], env=cluster.environment(), death_signal="TERM")


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Run the cluster for all tests of this process; skip where it can't run. Tests ask for ``slurm``."""
    if reason := missing_for_slurm():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("slurm")
    processes = Processes(folder / "logs")
    try:
        cluster = Slurm(_write_configuration(folder))
        _start_munge(processes, folder)
        _start_daemons(processes, cluster)
        cluster.wait_until_idle()
        yield cluster
    finally:
        processes.end_all()


@pytest.fixture
def slurm(slurm_cluster: Slurm) -> Iterator[Slurm]:
    """Return the cluster with its nodes idle; cancel the jobs that the test leaves behind."""
    yield slurm_cluster
    slurm_cluster.cancel_all()
