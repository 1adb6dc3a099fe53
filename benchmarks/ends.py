"""The ends of a relay, as light as Python makes them, so that what is measured is the relay between them.

``python -m benchmarks.ends tcp`` echoes what comes to a port that it prints; ``… rank URL TOKEN NUMBER`` is a stopped
rank of a broker that echoes keys; ``… relay URL`` is the same at the relay of :mod:`benchmarks.baselines.relay`.
"""

from __future__ import annotations

import base64
import os
import socket
import struct
import sys
from typing import Any, Protocol
from urllib.parse import urlsplit

from dbg_wire import subprotocol
from dbg_wire.codec import Input, Output, decode, decode_data, encode, encode_data
from dbg_wire.messages import Greet, Message, ProbeReply, Seat, Sender, Welcome
from tests.support.crowd import print_line
from tests.unit.broker.peers import attach, registration, trusting_context

TEXT, BINARY, PING, PONG = 1, 2, 9, 10
FINAL = MASKED = 0x80
SHORT, LONG = 126, 127
"""Lengths that say that the true length follows, in two or in eight bytes."""

CHUNK = 1 << 18


class WebSocketEnd:
    """A blocking client of a WebSocket whose mask is zero: masking costs it nothing, and the relay unmasks anyway."""

    def __init__(self, connection: socket.socket, rest: bytes = b"") -> None:
        self.connection = connection
        self._came = bytearray(rest)

    @classmethod
    def dial(cls, url: str, path: str, token: str = "none") -> WebSocketEnd:  # noqa: S107 - for a relay that asks for none
        """Connect and shake hands."""
        connection, rest = handshaken(url, path, token)
        return cls(connection, rest)

    def send(self, data: bytes | str) -> None:
        """Send a message in one frame."""
        self.connection.sendall(frame(data))

    def receive(self) -> bytes | str:
        """Return the next message."""
        while True:
            head = self._take(2)
            size = head[1]
            if size == SHORT:
                (size,) = struct.unpack("!H", self._take(2))
            elif size == LONG:
                (size,) = struct.unpack("!Q", self._take(8))
            payload, kind = self._take(size), head[0] & 0x0F
            if kind == PING:
                self.connection.sendall(frame(payload, PONG))
            elif kind in {TEXT, BINARY}:
                return payload if kind == BINARY else payload.decode()
            else:
                raise ConnectionError(f"a frame of kind {kind}: {payload!r}")

    def _take(self, count: int) -> bytes:
        while len(self._came) < count:
            data = self.connection.recv(CHUNK)
            if not data:
                raise ConnectionError("the relay has hung up")
            self._came += data
        taken = bytes(self._came[:count])
        del self._came[:count]
        return taken


def frame(data: bytes | str, kind: int = BINARY) -> bytes:
    """Return a final frame of a client, with a mask of zeros."""
    payload, kind = (data.encode(), TEXT) if isinstance(data, str) else (data, kind)
    size = len(payload)
    if size < SHORT:
        head = struct.pack("!BB", FINAL | kind, MASKED | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", FINAL | kind, MASKED | SHORT, size)
    else:
        head = struct.pack("!BBQ", FINAL | kind, MASKED | LONG, size)
    return head + bytes(4) + payload


def request(url: str, path: str, token: str) -> bytes:
    """Return the HTTP request that asks for a WebSocket."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {urlsplit(url).netloc}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {subprotocol()}",
        f"Authorization: Bearer {token}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def handshaken(url: str, path: str, token: str) -> tuple[socket.socket, bytes]:
    """Return a connection after the WebSocket's handshake, and the bytes that came behind it."""
    where = urlsplit(url)
    connection = socket.create_connection((where.hostname or "", where.port or 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if where.scheme == "wss":
        connection = trusting_context().wrap_socket(connection)
    connection.sendall(request(url, path, token))
    came = b""
    while b"\r\n\r\n" not in came:
        data = connection.recv(CHUNK)
        if not data:
            raise ConnectionError(f"no answer to the handshake but {came!r}")
        came += data
    head, _, rest = came.partition(b"\r\n\r\n")
    if b" 101 " not in head:
        raise ConnectionError(f"no WebSocket but {head!r}")
    return connection, rest


class Typist(Protocol):
    """The end at which keys are typed."""

    def key(self) -> None:
        """Type a key, and return when it came back."""


class TcpTypist:
    """Types at an echo of bytes."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def key(self) -> None:
        """Type a key, and return when it came back."""
        self._connection.sendall(b"n")
        if not self._connection.recv(1):
            raise ConnectionError("the echo has hung up")


class RelayTypist:
    """Types at an echo behind the plain relay."""

    def __init__(self, url: str) -> None:
        self._end = WebSocketEnd.dial(url, "/client/1")

    def key(self) -> None:
        """Type a key, and return when it came back."""
        self._end.send(b"n")
        self._end.receive()


class Terminal:
    """A terminal that has the keyboard of a stopped rank of a broker."""

    def __init__(self, url: str, token: str, key: str) -> None:
        self.end = WebSocketEnd.dial(url, "/client", token)
        self.end.send(encode(Greet(minor=0, release="0.1.0", name="me@login1")))
        self.end.send(encode(attach(key)))
        self._generation = expected(self.end, Seat).generation or 0
        self._typed = 0

    def key(self) -> None:
        """Type a key, and return when it came back."""
        self.type()
        self.take()

    def type(self) -> None:
        """Type a key."""
        self.end.send(encode_data(Input(1, 1, self._generation, self._typed, b"n")))
        self._typed += 1

    def take(self) -> None:
        """Return when something is drawn."""
        while isinstance(self.end.receive(), str):
            pass


def expected(end: WebSocketEnd, kind: type[Message]) -> Any:
    """Return the next message of a kind."""
    while True:
        said = end.receive()
        if isinstance(said, str) and isinstance(message := decode(said, Sender.BROKER), kind):
            return message


def rank_end(url: str, token: str, number: int) -> WebSocketEnd:
    """Register a stopped rank."""
    end = WebSocketEnd.dial(url, "/agent", token)
    end.send(encode(registration(number, world_size=1024)))
    expected(end, Welcome)
    return end


PULSE = encode(ProbeReply(where=None))


def is_probe(said: str) -> bool:
    """Tell whether the broker asks if the rank is there."""
    return '"probe"' in said


def echo_tcp() -> None:
    """Echo the bytes of one connection after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print_line(f"listens at {listener.getsockname()[1]}")
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not os.fork():
                while data := connection.recv(CHUNK):
                    connection.sendall(data)
                os._exit(0)
            connection.close()


def echo_keys(end: WebSocketEnd) -> None:
    """Be a rank that draws each key."""
    drawn = 0
    print_line("echoes")
    while True:
        said = end.receive()
        if isinstance(said, bytes):
            data = decode_data(said, Sender.CLIENT).data
            end.send(encode_data(Output(1, drawn, data)))
            drawn += len(data)
        elif is_probe(said):
            end.send(PULSE)


def echo_frames(end: WebSocketEnd) -> None:
    """Send back each frame as it came."""
    print_line("echoes")
    while True:
        end.send(end.receive())


def main(kind: str, *arguments: str) -> None:
    """Be one of the ends until killed."""
    if kind == "tcp":
        echo_tcp()
    elif kind == "rank":
        url, token, number = arguments
        echo_keys(rank_end(url, token, int(number)))
    else:
        echo_frames(WebSocketEnd.dial(arguments[0], "/agent/1"))


if __name__ == "__main__":
    main(*sys.argv[1:])
