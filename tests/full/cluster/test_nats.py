"""Why a cluster can't be joined, in a sentence, with real servers of NATS and with what poses as one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trustme

from dbg_broker.cluster.nats import CantJoin, Nats, Servers
from dbg_broker.timers import Timers
from tests.support.nats_servers import HAS_NATS, NatsServers, free_ports, started_servers

needs_nats = pytest.mark.skipif(not HAS_NATS, reason="needs nats-server")


AUTHORIZATION = 'authorization { token: "a-token" }'


@asynccontextmanager
async def posing(*lines: bytes) -> AsyncIterator[str]:
    """Yield the URL of a server that sends these lines, one after each that it receives, and then none."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for line in lines:
            writer.write(line)
            await reader.readline()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"nats://127.0.0.1:{port}"
    finally:
        server.close()


async def why(servers: Servers) -> str:
    """Return why a cluster can't be joined."""
    with pytest.raises(CantJoin) as caught:
        await join(servers)
    return str(caught.value)


async def join(servers: Servers) -> None:
    """Look whether a cluster can be joined."""
    nats = nats_at(servers)
    await nats.open()
    try:
        nats.check()
    finally:
        await nats.close()


def nats_at(servers: Servers) -> Nats:
    loop = asyncio.get_running_loop()
    return Nats(servers, "name", Timers(loop.time, loop.call_later))


def servers_of(nats: NatsServers) -> Servers:
    return Servers(tuple(f"nats://127.0.0.1:{port}" for port in nats.ports))


@contextmanager
def server(directory: Path, more: str) -> Iterator[NatsServers]:
    yield from started_servers(directory, 1, more=more)


async def test_a_port_without_a_server_is_reported() -> None:
    (port,) = free_ports(1)
    reason = await why(Servers((f"nats://127.0.0.1:{port}",)))
    assert f"nats://127.0.0.1:{port} (Connect call failed" in reason


async def test_a_server_that_is_not_nats_is_reported() -> None:
    async with posing(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        reason = await why(Servers((url,)))
        assert f"no NATS server answers at {url}" in reason
        assert "4222" in reason


async def test_a_server_without_tls_is_refused_for_a_tls_url() -> None:
    """It has asked for a password in plain text, as whoever sits between can."""
    info = b'INFO {"server_id":"x","version":"2.9.0","max_payload":1048576,"proto":1,"auth_required":true}\r\n'
    async with posing(info, b"", b"PONG\r\n") as url:
        await join(Servers((url,), {"token": "a-token"}))
        assert "TLS" in await why(Servers((url.replace("nats:", "tls:"),), {"token": "a-token"}))


@needs_nats
@pytest.mark.parametrize(
    ("options", "reason"),
    [({}, "asks for credentials"), ({"token": "wrong"}, "refuses the credentials"), ({"token": "a-token"}, "")],
)
async def test_missing_and_wrong_credentials_are_reported(tmp_path: Path, options: dict[str, str], reason: str) -> None:
    with server(tmp_path, AUTHORIZATION) as nats:
        servers = Servers(servers_of(nats).urls, options)
        if reason:
            assert reason in await why(servers)
        else:
            await join(servers)


@needs_nats
async def test_only_a_trusted_certificate_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ca = trustme.CA()
    own = ca.issue_cert("127.0.0.1")
    certificate, key, authority = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem"
    own.cert_chain_pems[0].write_to_path(certificate)
    own.private_key_pem.write_to_path(key)
    ca.cert_pem.write_to_path(authority)
    with server(tmp_path, f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}') as nats:
        url = servers_of(nats).urls[0].replace("nats:", "tls:")
        assert "certificate" in await why(Servers((url,)))
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        await join(Servers((url,)))
        assert ssl.get_default_verify_paths().cafile == str(authority)


@needs_nats
async def test_one_server_of_several_is_enough(tmp_path: Path) -> None:
    (unused_port,) = free_ports(1)
    with server(tmp_path, "") as nats:
        urls = (f"nats://127.0.0.1:{unused_port}", servers_of(nats).urls[0])
        for _ in range(5):
            await join(Servers(urls))
