"""The two hosts have names, addresses and loopbacks of their own, share files, and can be unplugged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.netns import PREFIX, Host, hosts
from tests.support.processes import Processes
from tests.support.requirements import missing_for_netns
from tests.support.time_unit import seconds

SERVE_ONE = """
import socket
with socket.create_server(("0.0.0.0", 0)) as server:
    print("port", server.getsockname()[1], flush=True)
    connection, (peer, _) = server.accept()
    connection.sendall(f"{socket.gethostname()} greets {peer}".encode())
"""

CONNECT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])) as connection:
    print(connection.recv(1000).decode())
"""


def connect(host: Host, name: str, port: str, timeout: float) -> str:
    result = host.run(sys.executable, "-c", CONNECT, name, port, str(timeout))
    return result.stdout.strip() or result.stderr.strip().splitlines()[-1]


def test_a_connection_by_name_from_host_to_host(two_hosts: tuple[Host, Host], processes: Processes) -> None:
    first, second = two_hosts
    server = first.popen(processes, "server", sys.executable, "-c", SERVE_ONE)
    port = server.wait_for_output(r"port (\d+)").group(1)
    # The loopback of the second host is its own, and no server listens on it.
    assert "refused" in connect(second, "127.0.0.1", port, seconds(10))
    assert connect(second, "h1", port, seconds(10)) == f"h1 greets {second.ip}"


def test_hosts_are_removed_also_those_of_killed_test_runs(tmp_path: Path) -> None:
    if reason := missing_for_netns():
        pytest.skip(reason)
    with subprocess.Popen(["true"]) as ended:
        pass
    subprocess.run(["ip", "netns", "add", f"{PREFIX}-{ended.pid}-0-h1"], check=True)
    with hosts(["a"], tmp_path) as (only,):
        there = _namespaces()
        assert only.namespace in there
        assert f"{PREFIX}-{ended.pid}-0-h1" not in there
    assert only.namespace not in _namespaces()


def _namespaces() -> set[str]:
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in listed.splitlines()}
