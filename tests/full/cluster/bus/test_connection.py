"""Why a cluster can't be joined, in a sentence, with real servers of NATS and with what poses as one."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dbg_broker.net.bus.connection import CantJoin, Servers, check_server, open_connection
from dbg_broker.net.bus.login import Login, read_login
from tests.support.nats_ends import servers_of
from tests.support.nats_servers import HAS_NATS, NatsServers, free_ports, started_servers
from tests.unit.broker.net.bus.test_login import creds

needs_nats = pytest.mark.skipif(not HAS_NATS, reason="needs nats-server")


AUTHORIZATION = 'authorization { token: "a-token" }'


@asynccontextmanager
async def posing(*lines: bytes) -> AsyncIterator[str]:
    """Yield the URL of a server that says these lines, one after each that it is told, and then nothing."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for line in lines:
            writer.write(line)
            await reader.readline()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
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
    connection = await open_connection(servers, "name")
    try:
        await check_server(connection)
    finally:
        await connection.close()


@contextmanager
def server(directory: Path, more: str) -> Iterator[NatsServers]:
    yield from started_servers(directory, 1, more=more)


async def test_where_nobody_listens() -> None:
    (port,) = free_ports(1)
    said = await why(Servers((f"nats://127.0.0.1:{port}",)))
    assert f"nats://127.0.0.1:{port} (Connect call failed" in said


async def test_what_is_no_nats() -> None:
    async with posing(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        assert (await why(Servers((url,)))).startswith(f"what answers at {url} is not NATS; look at host")


@needs_nats
@pytest.mark.parametrize(
    ("options", "said"),
    [({}, "asks for credentials"), ({"token": "wrong"}, "refuses the credentials"), ({"token": "a-token"}, "")],
)
async def test_credentials(tmp_path: Path, options: dict[str, str], said: str) -> None:
    with server(tmp_path, AUTHORIZATION) as nats:
        servers = Servers(servers_of(nats).urls, Login(dict(options)))
        if said:
            assert said in await why(servers)
        else:
            await join(servers)


KINDS = {"operator": 14 << 3, "account": 0, "user": 20 << 3}
"""The first byte of the public key of each kind, which NATS writes in base32."""


class Key:
    """A key of NATS: an operator's, an account's or a user's."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._private = Ed25519PrivateKey.generate()
        self.public = in_base32(bytes([KINDS[kind]]) + self._private.public_key().public_bytes_raw())

    def claims(self, of: Key, **more: object) -> str:
        """Return a JWT of NATS in which this key says something of another one."""
        said = {"jti": "x", "iat": 1, "iss": self.public, "name": "tests", "sub": of.public}
        said["nats"] = {"type": of.kind, "version": 2, **more}
        parts = [encoded(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, said)]
        return ".".join([*parts, encoded(self._private.sign(".".join(parts).encode()))])

    def seed(self) -> str:
        """Return the seed as a file of credentials has it."""
        kind = KINDS[self.kind]
        return in_base32(bytes([18 << 3 | kind >> 5, (kind & 31) << 3]) + self._private.private_bytes_raw())


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def in_base32(data: bytes) -> str:
    """Return bytes with their checksum, as NATS writes keys."""
    return base64.b32encode(data + binascii.crc_hqx(data, 0).to_bytes(2, "little")).decode().rstrip("=")


LIMITLESS = {"subs": -1, "data": -1, "payload": -1}
"""Limits of a user; those of an account have some more."""


@needs_nats
async def test_a_creds_file_of_an_operator_and_one_of_somebody_else(tmp_path: Path) -> None:
    operator, user = Key("operator"), Key("user")
    account, system, stranger = Key("account"), Key("account"), Key("account")
    limits = {**LIMITLESS, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
    storage = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    preloaded = (
        f"{account.public}: {operator.claims(account, limits={**limits, **storage})}, "
        f"{system.public}: {operator.claims(system, limits=limits)}"
    )
    more = (
        f"operator: {operator.claims(operator)}\nsystem_account: {system.public}\n"
        f"resolver: MEMORY\nresolver_preload {{ {preloaded} }}\n"
    )
    with server(tmp_path, more) as nats:
        for issuer, said in ((account, ""), (stranger, "refuses the credentials")):
            file = tmp_path / "user.creds"
            file.write_text(creds(user.seed(), issuer.claims(user, **LIMITLESS)))
            file.chmod(0o600)
            servers = Servers(servers_of(nats).urls, read_login(file))
            if said:
                assert said in await why(servers)
            else:
                await join(servers)


@needs_nats
async def test_nats_without_jetstream(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        "nats-server", "-a", "127.0.0.1", "-p", str(port), stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        while b"Server is ready" not in await process.stderr.readline():
            pass
        said = await why(Servers((f"nats://127.0.0.1:{port}",)))
        assert f"nats://127.0.0.1:{port}" in said
    finally:
        process.kill()
        await process.wait()


async def test_an_older_nats() -> None:
    info = b'INFO {"server_id":"x","version":"2.1.9","max_payload":1048576,"proto":1}\r\n'
    async with posing(info, b"", b"PONG\r\n") as url:
        assert "is release 2.1, and brokers need 2.9 or newer" in await why(Servers((url,)))


@needs_nats
async def test_a_certificate_that_nobody_here_trusts_and_one_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    (nobody,) = free_ports(1)
    with server(tmp_path, "") as nats:
        urls = (f"nats://127.0.0.1:{nobody}", servers_of(nats).urls[0])
        for _ in range(5):
            connection = await open_connection(Servers(urls), "name")
            assert connection.url == urls[1]
            await connection.close()
