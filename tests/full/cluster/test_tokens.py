"""Tokens over three real brokers, and what keeps a broker from joining them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nats
from nats.aio.msg import Msg

from dbg_agent.rank.membership import SECRET_BYTES
from tests.full.broker.test_tokens import REVOKED, terminal
from tests.support.cluster import Brokers, admits, issue, owners
from tests.support.nats_servers import NatsServers, started_servers
from tests.support.processes import Processes
from tests.support.ranks import attach_command, wait_until
from tests.support.serving import run, tokens
from tests.support.time_unit import seconds


def test_a_token_name_cannot_be_used_twice(brokers: Brokers) -> None:
    bob = issue(brokers[0], "bob")
    brokers.until(lambda: "bob" in run(brokers[1].home, "token", "--list").stdout)
    assert admits(brokers[1], bob)
    refused = run(brokers[1].home, "token", "--role", "driver", "--name", "bob")
    assert refused.returncode == 2
    assert "'bob'" in refused.stderr


def test_tokens_that_other_brokers_use_are_not_rotated(brokers: Brokers) -> None:
    before = tokens(brokers[1].home)
    refused = run(brokers[1].home, "token", "--rotate")
    assert refused.returncode == 2
    assert tokens(brokers[1].home) == before


def test_a_revocation_without_nats_is_sent_when_nats_returns(brokers: Brokers, nats: NatsServers) -> None:
    carol, dave = issue(brokers[0], "carol"), issue(brokers[0], "dave")
    for broker in brokers[1:]:
        brokers.until(lambda broker=broker: admits(broker, dave))  # type: ignore[misc]
    nats.stop()
    with terminal(brokers[1].url, carol) as there:
        revoked = run(brokers[0].home, "token", "--revoke", "carol")
        assert revoked.returncode == 0
        assert not admits(brokers[0], carol)
        erin = issue(brokers[2], "erin")
        nats.start()
        assert there.closed() == REVOKED
    for broker in brokers:
        brokers.until(lambda broker=broker: admits(broker, erin))  # type: ignore[misc]
        assert not admits(broker, carol)
        assert admits(broker, dave)


def test_a_restarted_broker_gets_missed_changes_before_it_serves(brokers: Brokers, nats: NatsServers) -> None:
    grace = issue(brokers[0], "grace")
    brokers.until(lambda: admits(brokers[1], grace))
    brokers[0].kill()
    heidi = issue(brokers[2], "heidi")
    assert run(brokers[1].home, "token", "--revoke", "grace").returncode == 0
    brokers.until(lambda: not admits(brokers[2], grace) and admits(brokers[1], heidi))
    # NATS keeps nothing, and who has revoked it is down now.
    brokers[1].kill()
    nats.stop()
    nats.start()
    brokers.until(lambda: brokers.status(brokers[2])["cluster"]["nats_silent"] is None)
    brokers[0].restart()
    assert not admits(brokers[0], grace)
    assert admits(brokers[0], heidi)


@contextmanager
def overheard(servers: NatsServers) -> Iterator[bytearray]:
    """Return all that the servers carry in the block."""
    heard, listens, over = bytearray(), threading.Event(), threading.Event()

    async def listen() -> None:
        client = await nats.connect(servers.url.removeprefix("nats://").split(",")[0])

        async def take(message: Msg) -> None:
            heard.extend(message.subject.encode() + message.data)

        await client.subscribe(">", cb=take)
        await client.flush()
        listens.set()
        await asyncio.to_thread(over.wait)
        await client.flush()
        await client.close()

    thread = threading.Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    try:
        assert listens.wait(seconds(30))
        yield heard
    finally:
        over.set()
        thread.join()


SECRET = "5e" * SECRET_BYTES

STOPS = """\
import os
os.urandom = lambda count: b"\\x5e" * count
import dbg_agent
value = 41
dbg_agent.set_trace()
"""
"""A rank whose secret the test knows."""


def test_nats_never_carries_a_token_or_the_secret_of_a_rank(
    brokers: Brokers, nats: NatsServers, processes: Processes
) -> None:
    with overheard(nats) as heard:
        secret = issue(brokers[0], "frank", "driver")
        env = {**brokers[0].environment, "RANK": "0", "WORLD_SIZE": "1"}
        rank = processes.start("rank", [sys.executable, "-c", STOPS], env=env)
        asked = subprocess.run(
            attach_command("eval", "0", "value + 1", "--wait", "--for", "60"),
            env={**brokers[1].environment, "DBG_TOKEN": secret},
            capture_output=True,
            text=True,
            timeout=seconds(90),
            check=False,
        )
        assert "42" in asked.stdout, asked.stderr
        own = tokens(brokers[0].home)
        assert run(brokers[2].home, "token", "--revoke", "frank").returncode == 0
        rank.kill()
        rank.wait()
        wait_until(
            brokers[1].home, lambda ranks: [one["state"] for one in ranks] == ["exited"], "it", listing=["--all"]
        )
        # It hands the ended rank over to another broker.
        its_broker = owners(brokers)[0].process
        its_broker.signal(signal.SIGTERM)
        its_broker.wait()
    assert b"dbg_broker.to." in heard
    assert b"frank" in heard
    for text in (*own, secret):
        assert text.encode() not in heard
    assert hashlib.sha256(SECRET.encode()).hexdigest().encode() in heard
    assert SECRET.encode() not in heard
    assert bytes.fromhex(SECRET) not in heard


def refusal(home: Path, *arguments: str, status: int, **environ: str) -> str:
    """Return the message of a ``serve`` that ends with this status; it has listened nowhere."""
    command = [sys.executable, "-m", "dbg_broker", "serve", "--listen", "127.0.0.1:0", *arguments]
    env = {**os.environ, "DBG_HOME": str(home), **environ}
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == status, result.stderr
    assert result.stdout == ""
    assert not (home / "broker.json").exists()
    (line,) = result.stderr.splitlines()
    return line


@contextmanager
def server(directory: Path, more: str) -> Iterator[NatsServers]:
    """Run one server of NATS with more in its configuration."""
    yield from started_servers(directory, 1, more=more)


def test_credentials_without_permission_are_refused(home: Path, tmp_path: Path) -> None:
    user = "user: u, password: p, permissions: { subscribe: other, publish: other }"
    login = tmp_path / "login"
    login.write_text("u:p\n")
    login.chmod(0o600)
    with server(tmp_path, f"authorization {{ users: [{{ {user} }}] }}") as nats:
        line = refusal(home, "--cluster", nats.url, "--cluster-credentials", str(login), status=1)
    assert "dbg_broker.>" in line


def test_a_missing_nats_client_is_reported(home: Path, tmp_path: Path) -> None:
    (tmp_path / "nats.py").write_text("raise ImportError('not here')\n")
    line = refusal(home, "--cluster", "nats://127.0.0.1", status=2, PYTHONPATH=str(tmp_path))
    assert "pip install 'dbg-broker[cluster]'" in line
