"""Servers at a broker's address: brokers that each do one thing wrong, and impostors that note all bytes sent there."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, TypeVar

import trustme

from dbg_dial.endpoint import fingerprint_of
from tests.support.time_unit import seconds

TOKEN = "a-token-of-nobody-which-must-not-show-up-anywhere"  # noqa: S105 - nobody's

WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE = 1, 2, 8

CHUNK = 65536

Answer = Callable[[ssl.SSLSocket], None]
"""A function that serves a connection after its TLS handshake; when it returns, the connection is closed."""

S = TypeVar("S", bound="Server")


class Server:
    """A server on ``port`` of loopback (0: a free one) that hands each connection to ``serve``, until :meth:`close`."""

    def __init__(self, serve: Callable[[Any], None], context: ssl.SSLContext | None = None, port: int = 0) -> None:
        self._serve = serve
        self._context = context
        self._open: set[socket.socket] = set()
        self._last: object = None
        # create_server sets SO_REUSEADDR, so old connections that linger on the port don't matter.
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, name="server", daemon=True)]
        self._threads[0].start()

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Serve who has come before, then end all connections and threads, and release the port."""
        with socket.socket() as last:
            last.bind(("127.0.0.1", 0))
            self._last = last.getsockname()
            last.connect(("127.0.0.1", self.port))
            self._threads[0].join()
        self._listener.close()
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        while True:
            connection, name = self._listener.accept()
            if name == self._last:
                connection.close()
                return
            if self._context is not None:
                # The handshake takes place in the connection's own thread, where close() can end it.
                connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            self._open.add(connection)
            self._threads.append(threading.Thread(target=self._serve_one, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve_one(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            self._serve(connection)
        self._open.discard(connection)


class FakeBroker(Server):
    """A server behind TLS, with a certificate that can be pinned, that hands each connection to ``answer``."""

    def __init__(self, answer: Answer, certificate: trustme.LeafCert | None = None) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if certificate is None:
            certificate = trustme.CA().issue_cert("127.0.0.1")
        certificate.configure_cert(self.context)
        pem = certificate.cert_chain_pems[0].bytes().decode()
        self.fingerprint = fingerprint_of(ssl.PEM_cert_to_DER_cert(pem))

        def serve(connection: ssl.SSLSocket) -> None:
            connection.do_handshake()
            answer(connection)

        super().__init__(serve, self.context)

    @property
    def variables(self) -> dict[str, str]:
        return {"DBG_BROKER": f"127.0.0.1:{self.port}#{self.fingerprint}", "DBG_TOKEN": TOKEN}


def read_request(connection: ssl.SSLSocket) -> str:
    head = b""
    while b"\r\n\r\n" not in head and (data := connection.recv(65536)):
        head += data
    return head.decode("latin-1")


def read_all(connection: ssl.SSLSocket) -> None:
    """Read until the peer hangs up."""
    while connection.recv(65536):
        pass


def answer_status(status: str, body: str) -> Answer:
    """Answer every request with this status, such as ``426 Upgrade Required``, and this text."""

    def answer(connection: ssl.SSLSocket) -> None:
        read_request(connection)
        head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall((head + body).encode())

    return answer


def answer_bytes(data: bytes) -> Answer:
    def answer(connection: ssl.SSLSocket) -> None:
        read_request(connection)
        connection.sendall(data)

    return answer


def stay_silent(connection: ssl.SSLSocket) -> None:
    read_all(connection)


def hang_up(connection: ssl.SSLSocket) -> None:
    """Close the connection before any request."""


def flood_headers(connection: ssl.SSLSocket) -> None:
    """Never end the head of an answer."""
    connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n")
    while True:
        connection.sendall(b"X-More: of the same\r\n" * 100)


def accept_and_send(*frames: bytes, subprotocol: str | None = "dbg.v1") -> Answer:
    """Accept the WebSocket, send frames made by :func:`frame`, and then send nothing more."""

    def answer(connection: ssl.SSLSocket) -> None:
        request = read_request(connection)
        key = next(line.split(":")[1].strip() for line in request.splitlines() if line.startswith("Sec-WebSocket-Key"))
        accept = base64.b64encode(hashlib.sha1(key.encode() + WEBSOCKET_GUID).digest()).decode()  # noqa: S324 - RFC 6455
        chosen = f"Sec-WebSocket-Protocol: {subprotocol}\r\n" if subprotocol else ""
        connection.sendall(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"{chosen}Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        connection.sendall(b"".join(frames))
        read_all(connection)

    return answer


def frame(opcode: int, payload: bytes) -> bytes:
    length = struct.pack(">B", len(payload)) if len(payload) < 126 else struct.pack(">BH", 126, len(payload))
    return bytes([0x80 | opcode]) + length + payload


def message(**fields: object) -> bytes:
    return frame(TEXT, json.dumps(fields).encode())


Kind = Literal["closes", "http", "tls"]
"""``closes`` says nothing and hangs up, ``http`` agrees to everything in plain HTTP, ``tls`` does so behind its own
certificate."""

AGREES = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"

TLS_ALERT, TLS_HANDSHAKE = 21, 22
CLIENT_HELLO = 1


class Impostor(Server):
    """A foreign server at the broker's address that notes all bytes sent there; any thread may call any method."""

    def __init__(self, port: int, kind: Kind) -> None:
        self._kind = kind
        self._changed = threading.Condition()
        self._heard: list[bytes] = []
        context = None
        if kind == "tls":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            trustme.CA().issue_cert("localhost").configure_cert(context)
        super().__init__(self._listen, context, port)

    def heard(self) -> list[bytes]:
        """Return the bytes that came on each connection that has ended; for ``tls``, the decrypted ones."""
        with self._changed:
            return list(self._heard)

    def wait_for_more(self, count: int) -> None:
        """Wait until ``count`` more connections have come and ended than before this call."""
        with self._changed:
            wanted = len(self._heard) + count
            if not self._changed.wait_for(lambda: len(self._heard) >= wanted, seconds(30)):
                raise AssertionError(f"only {count - wanted + len(self._heard)} of {count} more connections came")

    def _listen(self, connection: socket.socket) -> None:
        heard = bytearray()
        with contextlib.suppress(OSError):
            self._converse(connection, heard)
        with self._changed:
            self._heard.append(bytes(heard))
            self._changed.notify_all()

    def _converse(self, connection: socket.socket, heard: bytearray) -> None:
        if isinstance(connection, ssl.SSLSocket):
            connection.do_handshake()
            connection.sendall(AGREES)
        while data := connection.recv(CHUNK):
            heard += data
            if self._kind == "closes":
                return
            if self._kind == "http":
                connection.sendall(AGREES)


def is_at_most_a_hello(heard: bytes) -> bool:
    """Say whether these bytes are nothing, or one TLS ClientHello, with perhaps an alert behind it."""
    kinds = []
    while heard:
        if len(heard) < 6:
            return False
        kind, _, length = struct.unpack_from(">BHH", heard)
        kinds.append((kind, heard[5] if kind == TLS_HANDSHAKE else None))
        heard = heard[5 + length :]
    return kinds in ([], [(TLS_HANDSHAKE, CLIENT_HELLO)], [(TLS_HANDSHAKE, CLIENT_HELLO), (TLS_ALERT, None)])
