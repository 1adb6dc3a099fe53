"""Handshakes that the broker refuses, and the end of peers that break the protocol, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from dbg_broker.net.http import path_shown
from dbg_broker.ranks.liveness import is_dead
from tests.support.serving import SECONDS, Serve, tokens
from tests.unit.broker.peers import Broker

LONG = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("/client", "/client"),
        (f"/client?token={LONG}", "/client"),
        (f"/client#token={LONG}", "/client"),
        (f"/client/{LONG}", "/client/0123456…"),
        (f"/{LONG}", "/0123456789abcd…"),
        ("/\x1b]0;x\x07", r"/\x1b]0;x\x07"),
        ("", ""),
    ],
)
def test_a_path_is_shown_without_possible_tokens(target: str, shown: str) -> None:
    assert path_shown(target) == shown


def test_a_token_in_a_query_is_not_logged(serve: Serve) -> None:
    serving = serve("--listen", "127.0.0.1:0", "-vv")
    secrets = tokens(serving.home)
    context = ssl.create_default_context(cafile=str(serving.home / "certificate.pem"))
    context.check_hostname = False
    for secret in secrets:
        for path in (f"/client?token={secret}", f"/nothing?{secret}", f"/{secret}"):
            asking = http.client.HTTPSConnection("127.0.0.1", serving.port, timeout=SECONDS, context=context)
            asking.request("GET", path)
            assert asking.getresponse().status in (401, 404)
            asking.close()
    _, _, errors = serving.end()
    assert errors.count(" refused: 40") == 9
    assert not any(secret in errors for secret in secrets)


def test_a_process_is_dead_as_a_zombie_and_after_its_end() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(process.pid)
    assert is_dead(process.pid)


def refuse(pid: int, number: int) -> None:
    raise PermissionError


def test_a_process_that_proc_hides_is_not_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_dead(os.getpid(), tmp_path)
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert is_dead(process.pid, tmp_path)
    assert is_dead(2**70, tmp_path)
    monkeypatch.setattr(os, "kill", refuse)  # as for the process of another user
    assert not is_dead(process.pid, tmp_path)


@pytest.mark.parametrize(("state", "dead"), [("R", False), ("S", False), ("D", False), ("T", False), ("Z", True)])
def test_name_of_a_process_does_not_hide_its_state(tmp_path: Path, state: str, dead: bool) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (evil) Z ) R) {state} 1 7 7\n")
    assert is_dead(7, tmp_path) is dead


async def test_bad_connections_leave_the_broker_unchanged(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    noise = [
        b"",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-scan\r\n",
        b"GET / HTTP/1.1\r\n",
        b"GET /client HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
        b"\x00" * 100,
        b"GET " + b"/" * 20000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nSec-WebSocket-Key: \xff\xfe\r\nNo colon\r\n\r\n",
    ]

    async def bad_connection(number: int) -> None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", broker.endpoint.port)
            writer.write(noise[number % len(noise)])
            await writer.drain()
            writer.transport.abort()

    for first in range(0, 1000, 100):
        await asyncio.gather(*(bad_connection(first + number) for number in range(100)))
    await broker.terminal()
    await broker.left(lambda _: len(broker.server) == 1)
    assert broker.parts.meters.failures > 0
    assert not any(record.exc_info or record.levelno > logging.INFO for record in caplog.records)
    assert not any("\n" in record.getMessage() for record in caplog.records)
