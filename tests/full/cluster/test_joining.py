"""What keeps a broker from joining a cluster is said in a sentence before anything listens."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import Brokers, make_home
from tests.support.nats_servers import NatsServers, free_ports, started_servers
from tests.support.processes import Processes


def refusal(home: Path, *arguments: str, status: int, **environ: str) -> str:
    """Return what ``serve`` says that ends with this status; it has listened nowhere."""
    command = [sys.executable, "-m", "dbg_broker", "serve", "--listen", "127.0.0.1:0", *arguments]
    env = {**os.environ, "DBG_HOME": str(home), **environ}
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert said.returncode == status, said.stderr
    assert said.stdout == ""
    assert not (home / "broker.json").exists()
    (line,) = said.stderr.splitlines()
    return line


@contextmanager
def server(directory: Path, more: str) -> Iterator[NatsServers]:
    """Run one server of NATS with more in its configuration."""
    yield from started_servers(directory, 1, more=more)


def test_an_address_that_is_none(home: Path) -> None:
    line = refusal(home, "--cluster", "http://h1", status=2)
    assert "--cluster 'http'://" in line
    assert "nats://HOST" in line


def test_nats_without_jetstream(home: Path, processes: Processes) -> None:
    (port,) = free_ports(1)
    nats = processes.start("nats", ["nats-server", "-a", "127.0.0.1", "-p", str(port)])
    nats.wait_for_output("Server is ready", stream="stderr")
    line = refusal(home, "--cluster", f"nats://127.0.0.1:{port}", status=1)
    assert f"nats://127.0.0.1:{port}" in line
    assert "nats-server" in line
    assert "-js" in line


def test_another_sites_cluster(nats: NatsServers, processes: Processes, tmp_path: Path) -> None:
    nats.start()
    ours = Brokers(processes, nats, tmp_path / "ours", tmp_path / "tokens")
    first = ours.add()
    line = refusal(make_home(tmp_path / "theirs", tmp_path / "none"), "--cluster", nats.url, status=1)
    assert all(fact in line for fact in (first.url, str(first.process.pid), "tokens/"))


@pytest.mark.parametrize("arguments", [["--insecure"], ["--driver-token", "memory"]])
def test_tokens_that_others_can_not_have(home: Path, arguments: list[str]) -> None:
    assert " ".join(arguments) in refusal(home, "--cluster", "nats://127.0.0.1", *arguments, status=2)


def test_a_python_without_the_client_of_nats(home: Path, tmp_path: Path) -> None:
    (tmp_path / "nats.py").write_text("raise ImportError('not here')\n")
    line = refusal(home, "--cluster", "nats://127.0.0.1", status=2, PYTHONPATH=str(tmp_path))
    assert "pip install 'dbg-broker[cluster]'" in line
