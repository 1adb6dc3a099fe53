"""Take one look at the ranks of a broker, without an event loop and without the library for WebSockets.

For the completion of a shell, which starts a Python at each Tab: those two take longer to load than the user waits.
What comes is JSON of a broker that has shown the pinned certificate, and is not checked any further.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from typing import Any

from dbg_dial.pin import check_certificate, check_token, client_context, untrusted
from dbg_wire.errors import BrokerUnreachable, PeerError, WrongToken
from dbg_wire.finding.endpoint import Reach
from dbg_wire.limits import MAX_FRAME_BYTES
from dbg_wire.version import PROTOCOL_MINOR, RELEASE, subprotocol

READ_BYTES = 64 * 1024

MAX_HEAD = 16 * 1024
"""Bytes of the answer to the request for a WebSocket at most."""

TEXT, CLOSE = 0x1, 0x8
_FINAL, _OPCODE, _LENGTH = 0x80, 0x0F, 0x7F


def glance(reach: Reach, name: str, *, connect_seconds: float, seconds: float) -> list[dict[str, Any]]:
    """Return the ranks as the broker lists them; ``name`` says to it who looks.

    Looking up the host blocks for as long as the name server does. Raise DbgError or OSError.
    """
    deadline = time.monotonic() + seconds
    check_token(reach.endpoint, reach.token)
    # As bytes, since for text Python loads the tables of international names.
    address: Any = (reach.endpoint.host.encode(), reach.endpoint.port)
    with socket.create_connection(address, connect_seconds) as plain, _secured(reach, plain, seconds) as connected:
        look = _Look(reach, connected, deadline)
        look.upgrade()
        look.say({"type": "greet", "minor": PROTOCOL_MINOR, "release": RELEASE, "name": name})
        look.say({"type": "subscribe", "once": True})
        return list(look.ranks())


def _secured(reach: Reach, plain: socket.socket, seconds: float) -> socket.socket:
    """Return the socket with TLS, where the broker has it, the certificate compared. Raise WrongCertificate."""
    plain.settimeout(seconds)
    if not reach.endpoint.secure:
        return plain
    context = client_context(reach.endpoint)
    # As bytes, as above.
    name = reach.endpoint.host.encode() if reach.endpoint.ca is not None else None
    try:
        secured = context.wrap_socket(plain, server_hostname=name)
    except ssl.SSLError as error:
        raise untrusted(reach.endpoint.url, error) or error from None
    try:
        check_certificate(reach.endpoint, secured.getpeercert(binary_form=True), "it shows {shown}, not {pinned}")
    except BaseException:
        secured.close()
        raise
    return secured


class _Look:
    """One connection: requests go out, and frames come in until the deadline."""

    def __init__(self, reach: Reach, connected: socket.socket, deadline: float) -> None:
        self._reach = reach
        self._socket = connected
        self._deadline = deadline
        self._read = bytearray()

    def upgrade(self) -> None:
        """Ask for a WebSocket. Raise WrongToken, or PeerError for another refusal."""
        endpoint = self._reach.endpoint
        lines = (
            "GET /client HTTP/1.1",
            f"Host: {endpoint.url.partition('://')[2]}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Protocol: {subprotocol()}",
            f"Authorization: Bearer {self._reach.token}",
            "\r\n",
        )
        self._socket.sendall("\r\n".join(lines).encode())
        while (end := self._read.find(b"\r\n\r\n")) < 0:
            if len(self._read) > MAX_HEAD:
                raise PeerError("an answer without an end")
            self._receive()
        status = self._read.split(b" ", 2)[1:2]
        del self._read[: end + 4]
        if status in ([b"401"], [b"403"]):
            raise WrongToken(endpoint.url, "it is refused")
        if status != [b"101"]:
            raise PeerError("no WebSocket")

    def say(self, message: dict[str, Any]) -> None:
        """Send a message as a text frame; short ones only."""
        data = json.dumps(message).encode()
        key = os.urandom(4)
        masked = bytes(byte ^ key[at % 4] for at, byte in enumerate(data))
        head = bytes([_FINAL | TEXT, 0x80 | (len(data) if len(data) < 126 else 126)])
        length = b"" if len(data) < 126 else struct.pack("!H", len(data))
        self._socket.sendall(head + length + key + masked)

    def ranks(self) -> Iterator[dict[str, Any]]:
        """Yield the ranks of the snapshot. Raise PeerError if something else comes."""
        for text in self._messages():
            message = json.loads(text)
            if message.get("type") == "refusal":
                raise PeerError("a refusal")
            if message.get("type") == "snapshot":
                yield from message["ranks"]
                if message["last"]:
                    return

    def _messages(self) -> Iterator[bytes]:
        """Yield the text messages that come; others are dropped."""
        text = b""
        while True:
            first, second = self._next(2)
            length = second & _LENGTH
            if length >= 126:
                (length,) = struct.unpack("!H", self._next(2)) if length == 126 else struct.unpack("!Q", self._next(8))
            if length > MAX_FRAME_BYTES:
                raise PeerError("a frame that is too long")
            data = self._next(length)
            opcode = first & _OPCODE
            if opcode == CLOSE:
                raise BrokerUnreachable(self._reach.endpoint.url, "the connection ended")
            if opcode > TEXT:
                continue
            text += data
            if first & _FINAL:
                yield text
                text = b""

    def _next(self, count: int) -> bytes:
        while len(self._read) < count:
            self._receive()
        taken = bytes(self._read[:count])
        del self._read[:count]
        return taken

    def _receive(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise BrokerUnreachable(self._reach.endpoint.url, "it does not answer in time")
        self._socket.settimeout(left)
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise BrokerUnreachable(self._reach.endpoint.url, "the connection ended")
        self._read += data
