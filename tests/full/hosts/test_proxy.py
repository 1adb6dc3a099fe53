"""The proxy and the two hosts of these tests do what their names say."""

from __future__ import annotations

import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.netns import PREFIX, Host, hosts
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.requirements import missing_for_netns
from tests.support.time_unit import seconds


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        try:
            while data := self.request.recv(65536):
                self.request.sendall(data)
        except OSError:
            return


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with Proxy(("127.0.0.1", server.server_address[1])) as proxy:
            yield proxy
        server.shutdown()
        thread.join()


@contextmanager
def connected(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), seconds(10)) as connection:
        yield connection


def echoed(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return receive(connection, len(data))


def receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count and (data := connection.recv(count - len(received))):
        received += data
    return received


def test_a_cut_resets_old_and_new_connections_until_mended(proxy: Proxy) -> None:
    with connected(proxy) as connection:
        assert echoed(connection, b"a") == b"a"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(OSError, match=r"reset|Broken pipe"), connected(proxy) as connection:
        echoed(connection, b"b")
    proxy.mend()
    with connected(proxy) as connection:
        assert echoed(connection, b"c") == b"c"


def test_a_connection_is_cut_behind_so_many_bytes_and_so_are_the_next_ones(proxy: Proxy) -> None:
    with connected(proxy) as connection:
        assert echoed(connection, b"before") == b"before"
        proxy.cut_after(3, "down", times=2)
        assert echoed(connection, b"abcdef") == b"abc"
        assert connection.recv(1) == b""
    with connected(proxy) as connection:
        assert echoed(connection, b"abcdef") == b"abc"
    assert proxy.cut_so_far == 2
    with connected(proxy) as connection:
        assert echoed(connection, b"abcdef") == b"abcdef"


def test_half_closed_means_an_end_one_way_and_bytes_the_other_way(proxy: Proxy) -> None:
    with connected(proxy) as connection:
        assert echoed(connection, b"a") == b"a"
        proxy.half_close("down")
        assert connection.recv(1) == b""
        connection.sendall(b"still taken")
    with connected(proxy) as connection:
        assert echoed(connection, b"b") == b"b"


def test_swallowed_bytes_are_lost_and_neither_side_is_told(proxy: Proxy) -> None:
    with connected(proxy) as connection:
        assert echoed(connection, b"a") == b"a"
        proxy.swallow("up")
        connection.sendall(b"lost")
        assert silent(connection)


def test_a_frozen_network_loses_nothing(proxy: Proxy) -> None:
    with connected(proxy) as connection:
        proxy.freeze()
        connection.sendall(b"kept")
        assert silent(connection)
        proxy.mend()
        assert receive(connection, 4) == b"kept"


def silent(connection: socket.socket) -> bool:
    """Return whether no byte comes for 0.1 s."""
    before = connection.gettimeout()
    connection.settimeout(0.1)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(before)
    return False


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


def greeting(host: Host, name: str, port: str, timeout: float) -> str:
    result = host.run(sys.executable, "-c", CONNECT, name, port, str(timeout))
    return result.stdout.strip() or result.stderr.strip().splitlines()[-1]


def test_a_connection_by_name_from_host_to_host(two_hosts: tuple[Host, Host], processes: Processes) -> None:
    first, second = two_hosts
    server = first.popen(processes, "server", sys.executable, "-c", SERVE_ONE)
    port = server.wait_for_output(r"port (\d+)").group(1)
    # The loopback of the second host is its own, and no server listens on it.
    assert "refused" in greeting(second, "127.0.0.1", port, seconds(10))
    assert greeting(second, "h1", port, seconds(10)) == f"h1 greets {second.ip}"


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
