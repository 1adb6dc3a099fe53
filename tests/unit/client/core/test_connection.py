from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trustme

from dbg_client.core.connection import Connection, Disconnected, dial
from dbg_wire.codec import Output
from dbg_wire.errors import BrokerUnreachable, DbgError, Refused, WrongCertificate, WrongToken, WrongVersion
from dbg_wire.finding.endpoint import Endpoint, Reach, fingerprint_of
from dbg_wire.messages import Detach, Greet, Snapshot, Subscribe
from tests.support.time_unit import seconds
from tests.unit.client.fake_broker import TOKEN, FakeBroker, make_rank

PATIENCE = seconds(10)


def certified() -> tuple[ssl.SSLContext, str]:
    """Return a server's TLS context and its certificate's fingerprint."""
    certificate = trustme.CA().issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    der = ssl.PEM_cert_to_DER_cert(certificate.cert_chain_pems[0].bytes().decode())
    return context, fingerprint_of(der)


def reach(port: int, fingerprint: str | None = None, token: str = TOKEN) -> Reach:
    endpoint = Endpoint(host="127.0.0.1", port=port, secure=fingerprint is not None, fingerprint=fingerprint)
    return Reach(endpoint=endpoint, token=token, sources={})


async def dialled(where: Reach) -> Connection:
    return await dial(where, "me@here", PATIENCE)


class Listener:
    """A server on loopback that keeps every byte it receives, and sends ``reply`` at once."""

    def __init__(self, reply: bytes = b"", *, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.received = b""
        self.ended = threading.Event()
        self._reply = reply
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            peer, _ = self._socket.accept()
            with self._socket, peer:
                self._talk(self._tls.wrap_socket(peer, server_side=True) if self._tls else peer)
        except OSError:
            pass
        finally:
            self.ended.set()

    def _talk(self, peer: socket.socket) -> None:
        with peer:
            if self._reply:
                peer.sendall(self._reply)
            while data := peer.recv(4096):
                self.received += data


@contextmanager
def closed_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    yield port


async def test_a_terminal_greets_and_is_welcome() -> None:
    with FakeBroker(make_rank()) as broker:
        connection = await dialled(reach(broker.port))
        connection.send(Subscribe())
        answer = await connection.receive()
        await connection.close()

        assert isinstance(answer, Snapshot)
        assert broker.wait_for(Greet).name == "me@here"


async def test_the_pinned_broker_is_reached_over_tls() -> None:
    context, fingerprint = certified()
    with FakeBroker(tls=context) as broker:
        connection = await dialled(reach(broker.port, fingerprint))
        await connection.close()

        broker.wait_for(Greet)


async def test_an_impostor_with_another_certificate_gets_no_byte_of_http() -> None:
    context, _ = certified()
    _, pinned = certified()
    impostor = Listener(tls=context)

    with pytest.raises(WrongCertificate) as caught:
        await dialled(reach(impostor.port, pinned))

    assert await asyncio.to_thread(impostor.ended.wait, PATIENCE)
    assert impostor.received == b""
    assert TOKEN not in str(caught.value)


async def test_an_impostor_without_tls_gets_a_hello_and_no_token() -> None:
    _, pinned = certified()
    impostor = Listener(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")

    with pytest.raises(WrongCertificate):
        await dialled(reach(impostor.port, pinned))

    assert await asyncio.to_thread(impostor.ended.wait, PATIENCE)
    assert impostor.received[:1] == b"\x16"  # a TLS handshake record, and nothing readable
    assert TOKEN.encode() not in impostor.received
    assert b"HTTP" not in impostor.received


@pytest.mark.parametrize(
    ("refuse", "error"),
    [
        ((401, "no token"), WrongToken),
        ((403, "a rank's token"), WrongToken),
        ((426, "dbg.v1 is not spoken here, dbg.v2 is"), WrongVersion),
        ((503, "full"), Refused),
        ((404, ""), Refused),
    ],
)
async def test_a_refused_upgrade_is_told_apart(refuse: tuple[int, str], error: type[DbgError]) -> None:
    with FakeBroker(refuse=refuse) as broker, pytest.raises(error) as caught:
        await dialled(reach(broker.port))

    assert refuse[1] in str(caught.value)
    assert caught.value.exit_status == 5


async def test_a_wrong_token_is_not_repeated() -> None:
    with FakeBroker(token=TOKEN[::-1]) as broker, pytest.raises(WrongToken) as caught:
        await dialled(reach(broker.port))

    assert TOKEN not in str(caught.value)


async def test_nobody_there_is_unreachable() -> None:
    with closed_port() as port, pytest.raises(BrokerUnreachable, match="Connection refused"):
        await dialled(reach(port))


async def test_an_unknown_host_is_unreachable() -> None:
    endpoint = Endpoint(host="no-such-host.invalid", port=6900, secure=False, fingerprint=None)
    where = Reach(endpoint=endpoint, token=TOKEN, sources={})

    with pytest.raises(BrokerUnreachable, match="no-such-host"):
        await dialled(where)


async def test_somebody_who_never_answers_is_unreachable() -> None:
    listener = Listener()

    with pytest.raises(BrokerUnreachable, match=r"no answer within 0\.2 s"):
        await dial(reach(listener.port), "me@here", 0.2)


async def test_a_broker_that_never_says_welcome_is_unreachable() -> None:
    with FakeBroker() as broker:
        broker.silent.add(Greet)
        with pytest.raises(BrokerUnreachable, match="silent"):
            await dial(reach(broker.port), "me@here", 0.2)


@pytest.mark.parametrize(
    "reply",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ],
)
async def test_something_else_on_the_port_is_refused(reply: bytes) -> None:
    listener = Listener(reply)

    with pytest.raises((Refused, BrokerUnreachable)):
        await dialled(reach(listener.port))


async def test_a_cut_is_told_to_whoever_receives() -> None:
    with FakeBroker() as broker:
        connection = await dialled(reach(broker.port))
        broker.cut()

        with pytest.raises(Disconnected):
            await connection.receive()
        await connection.close()


async def test_terminal_bytes_come_through() -> None:
    with FakeBroker() as broker:
        connection = await dialled(reach(broker.port))
        broker.tell(Output(1, 7, b"\x1b[H"))

        assert await connection.receive() == Output(1, 7, b"\x1b[H")
        await connection.close()


async def test_what_was_queued_goes_out_before_the_close() -> None:
    with FakeBroker() as broker:
        connection = await dialled(reach(broker.port))
        for _ in range(100):
            connection.send(Detach())
        await connection.close()

        broker.wait_for(Detach, count=100)


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with FakeBroker() as broker:
        connection = await dialled(reach(broker.port))
        await connection.close()


async def test_closing_twice_and_after_a_cut_is_no_error() -> None:
    with FakeBroker() as broker:
        connection = await dialled(reach(broker.port))
        broker.cut()
        await asyncio.wait_for(connection.close(), PATIENCE)
        await asyncio.wait_for(connection.close(), PATIENCE)
