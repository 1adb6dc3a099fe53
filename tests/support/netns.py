"""Two hosts on one machine: network namespaces on a bridge, each with its own name, address and loopback.

The hosts share the file system, and so a home, as the nodes of a cluster do. A process on a host sees that host's name
and an ``/etc/hosts`` with the names of all hosts; there is no other name service and no route to the outside.
"""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes import Child, Processes
from tests.support.requirements import missing_for_netns
from tests.support.time_unit import seconds

PREFIX = "dbgtest"

COUNTER = itertools.count()

ON_HOST = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'
"""Shell code for own namespaces of mounts and host name. ``ip netns exec`` would also hide /sys, which slurmd needs."""


@dataclass(frozen=True)
class Host:
    """One of the hosts; ``name`` is its host name, ``ip`` its address on the bridge."""

    name: str
    ip: str
    namespace: str
    hosts_file: Path

    def command(self, command: Sequence[str]) -> list[str]:
        """Return a command line that runs ``command`` on this host, as the very process that is started."""
        entered = ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--uts", "--mount"]
        return [*entered, "sh", "-c", ON_HOST, "sh", str(self.hosts_file), self.name, *command]

    def run(
        self, *command: str, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` on this host until it ends, with its output captured."""
        return subprocess.run(
            self.command(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env=env,
            timeout=seconds(30) if timeout is None else timeout,
        )

    def popen(self, processes: Processes, name: str, *command: str) -> Child:
        return processes.start(name, self.command(command))

    def unplug(self) -> None:
        """Cut the host's cable: packets are lost both ways, and no peer is told."""
        _ip(f"-n {_switch_of(self.namespace)} link set v-{self.name} down")

    def plug(self) -> None:
        _ip(f"-n {_switch_of(self.namespace)} link set v-{self.name} up")


def _switch_of(namespace: str) -> str:
    return f"{namespace.rsplit('-', 1)[0]}-switch"


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *shlex.split(arguments)], check=True, timeout=seconds(10))


@contextmanager
def hosts(names: Sequence[str], folder: Path) -> Iterator[list[Host]]:
    """Make hosts of these names on one bridge, with their ``/etc/hosts`` in ``folder``; remove them at the end."""
    _delete_leftovers()
    base = f"{PREFIX}-{os.getpid()}-{next(COUNTER)}"
    hosts_file = folder / "hosts"
    made = [Host(name, f"10.77.0.{i}", f"{base}-{name}", hosts_file) for i, name in enumerate(names, start=1)]
    hosts_file.write_text("127.0.0.1 localhost\n" + "".join(f"{host.ip} {host.name}\n" for host in made))
    switch = f"{base}-switch"
    try:
        _ip(f"netns add {switch}")
        _ip(f"-n {switch} link add br0 type bridge")
        _ip(f"-n {switch} link set br0 up")
        for host in made:
            _make(host, switch)
        yield made
    finally:
        for namespace in [*(host.namespace for host in made), switch]:
            subprocess.run(["ip", "netns", "del", namespace], check=False, stderr=subprocess.DEVNULL)


def _make(host: Host, switch: str) -> None:
    _ip(f"netns add {host.namespace}")
    _ip(f"-n {host.namespace} link set lo up")
    _ip(f"link add v-{host.name} netns {switch} type veth peer name eth0 netns {host.namespace}")
    _ip(f"-n {switch} link set v-{host.name} master br0 up")
    _ip(f"-n {host.namespace} addr add {host.ip}/24 dev eth0")
    _ip(f"-n {host.namespace} link set eth0 up")


def _delete_leftovers() -> None:
    """Remove the hosts of earlier test runs that were killed: those whose process is no more."""
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        name = line.split()[0]
        pid = name.removeprefix(f"{PREFIX}-").split("-")[0]
        if name.startswith(f"{PREFIX}-") and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """Make two hosts, ``h1`` and ``h2``; skip where they can't be made."""
    if reason := missing_for_netns():
        pytest.skip(reason)
    with hosts(["h1", "h2"], tmp_path) as (first, second):
        yield first, second
