"""Brokers that each do one thing wrong, behind TLS with a certificate that can be pinned."""

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

import trustme

from dbg_wire.finding.endpoint import fingerprint_of

TOKEN = "a-token-of-nobody-which-must-not-show-up-anywhere"  # noqa: S105 - nobody's

WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE = 1, 2, 8

Answer = Callable[[ssl.SSLSocket], None]
"""A function that serves a connection after its TLS handshake; when it returns, the connection is closed."""


class FakeBroker:
    """A server on a port of loopback that hands each connection to ``answer``, until :meth:`close`."""

    def __init__(self, answer: Answer, certificate: trustme.LeafCert | None = None) -> None:
        self._answer = answer
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if certificate is None:
            certificate = trustme.CA().issue_cert("127.0.0.1")
        certificate.configure_cert(self.context)
        pem = certificate.cert_chain_pems[0].bytes().decode()
        self.fingerprint = fingerprint_of(ssl.PEM_cert_to_DER_cert(pem))
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, name="fake-broker", daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> FakeBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that lead a rank or a terminal to this broker."""
        return {"DBG_BROKER": f"127.0.0.1:{self.port}#{self.fingerprint}", "DBG_TOKEN": TOKEN}

    def close(self) -> None:
        """End all connections and threads."""
        # Closing alone would leave the thread in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), self.context.wrap_socket(connection, server_side=True) as secured:
            self._open.add(secured)
            self._answer(secured)
            self._open.discard(secured)


def read_request(connection: ssl.SSLSocket) -> str:
    """Return the head of an HTTP request."""
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
    """Answer every request with these bytes and hang up."""

    def answer(connection: ssl.SSLSocket) -> None:
        read_request(connection)
        connection.sendall(data)

    return answer


def say_nothing(connection: ssl.SSLSocket) -> None:
    """Never answer."""
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
    """Return a WebSocket frame as servers send it."""
    length = struct.pack(">B", len(payload)) if len(payload) < 126 else struct.pack(">BH", 126, len(payload))
    return bytes([0x80 | opcode]) + length + payload


def message(**fields: object) -> bytes:
    """Return a frame with a control message."""
    return frame(TEXT, json.dumps(fields).encode())
