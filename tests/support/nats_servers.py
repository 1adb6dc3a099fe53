"""Three real servers of NATS as one cluster on the loopback, which a test may kill, suspend and start again."""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.processes import Child, Processes

HAS_NATS = shutil.which("nats-server") is not None

needs_nats = pytest.mark.skipif(not HAS_NATS, reason="needs nats-server")

CONFIGURATION = """\
server_name: {name}
listen: "127.0.0.1:{port}"
{more}
"""

CLUSTER = """\
cluster {{ name: tests, listen: "127.0.0.1:{port}", routes: [{routes}] }}
"""


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback that nobody has."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class NatsServers:
    """Servers of NATS that are one cluster, or a single one; ``more`` is more of their configuration."""

    def __init__(self, processes: Processes, directory: Path, count: int = 3, *, more: str = "") -> None:
        self._processes, self._directory = processes, directory
        self.count = count
        ports = free_ports(2 * count)
        self.ports, routes = ports[:count], ports[count:]
        shown = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
        self.children: list[Child | None] = [None] * count
        for number in range(count):
            cluster = CLUSTER.format(port=routes[number], routes=shown) if count > 1 else ""
            self._file(number).write_text(
                CONFIGURATION.format(name=f"n{number}", port=self.ports[number], more=cluster + more)
            )

    @property
    def url(self) -> str:
        return "nats://" + ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> None:
        """Start those that don't run, and return when they take connections.

        From the main thread: the kernel ends a server together with the thread that has started it.
        """
        begun = [number for number, child in enumerate(self.children) if child is None]
        for number in begun:
            command = ["nats-server", "-c", str(self._file(number))]
            self.children[number] = self._processes.start(f"nats{number}", command)
        for number in begun:
            self._child(number).wait_for_output("Server is ready", stream="stderr")

    def kill(self, number: int) -> None:
        child = self._child(number)
        child.kill()
        # One that is suspended dies as well.
        child.wait()
        self.children[number] = None

    def stop(self) -> None:
        """Kill all of them."""
        for number, child in enumerate(self.children):
            if child is not None:
                self.kill(number)

    def suspend(self) -> None:
        """Suspend all of them (SIGSTOP): nobody answers, and no connection ends."""
        for number in range(self.count):
            self._child(number).signal(signal.SIGSTOP)

    def resume(self) -> None:
        for number in range(self.count):
            self._child(number).signal(signal.SIGCONT)

    def _child(self, number: int) -> Child:
        child = self.children[number]
        assert child is not None, f"the server {number} does not run"
        return child

    def _file(self, number: int) -> Path:
        return self._directory / f"nats{number}.conf"


def started_servers(directory: Path, count: int = 3, *, more: str = "") -> Iterator[NatsServers]:
    """Yield servers that run, and end them; for fixtures of any scope."""
    processes = Processes(directory / "logs")
    servers = NatsServers(processes, directory, count, more=more)
    try:
        servers.start()
        yield servers
    finally:
        processes.end_all()
