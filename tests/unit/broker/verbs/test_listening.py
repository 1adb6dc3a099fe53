"""A socket that systemd keeps is served as it is, and connections wait there while no broker runs."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_broker.net.tcp import listen
from dbg_broker.settings import Listen
from dbg_broker.verbs.listening import address_of, inherited
from tests.support.serving import environment
from tests.support.time_unit import seconds
from tests.unit.broker.peers import trusting_context

AS_SYSTEMD = """\
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "dbg_broker", "serve"])
"""


def start(home: Path, listener: socket.socket) -> subprocess.Popen[str]:
    """Start a broker with this socket, and wait until it is ready."""
    broker = subprocess.Popen(
        [sys.executable, "-c", AS_SYSTEMD, str(listener.fileno())],
        env=environment(home),
        pass_fds=[listener.fileno()],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert broker.stdout is not None
    assert f"ready at wss://127.0.0.1:{listener.getsockname()[1]} " in broker.stdout.readline()
    return broker


def ask(asking: socket.socket) -> bytes:
    """Return the begin of the answer that a page has on a connection."""
    with trusting_context().wrap_socket(asking) as tls:
        tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        return tls.recv(12)


def test_a_connection_of_the_time_between_two_brokers_is_served_by_the_next(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as listener:
        for _ in range(2):
            # Nobody accepts yet, and nobody refuses.
            asking = socket.create_connection(listener.getsockname(), seconds(20))
            broker = start(tmp_path, listener)
            assert ask(asking) == b"HTTP/1.1 200"
            broker.send_signal(signal.SIGTERM)
            broker.communicate(timeout=seconds(20))
            assert broker.returncode == 0


@pytest.mark.parametrize(
    "environ",
    [{}, {"LISTEN_FDS": "1"}, {"LISTEN_FDS": "1", "LISTEN_PID": "1"}, {"LISTEN_FDS": "0", "LISTEN_PID": "4711"}],
)
def test_sockets_of_another_process_are_left_alone(environ: dict[str, str]) -> None:
    assert inherited(environ, 4711) is None


def test_the_address_of_a_socket_is_that_of_the_broker() -> None:
    with listen("127.0.0.1", 0) as listener:
        assert address_of(listener) == Listen(host="127.0.0.1", port=listener.getsockname()[1])


def test_a_socket_of_another_kind_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        ran = subprocess.run(
            [sys.executable, "-c", AS_SYSTEMD, str(other.fileno())],
            env=environment(tmp_path),
            pass_fds=[other.fileno()],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds(20),
        )
    assert ran.returncode == 2
    assert "LISTEN_FDS 1 of this service is not one TCP socket that listens" in ran.stderr
