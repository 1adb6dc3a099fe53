"""HTTP before the WebSocket library: a request's parts, an answer's bytes, and the handshake of RFC 6455.

The library's handshake takes two thirds of a rank's registration: it is for servers with options that the broker has
not.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import NamedTuple

from websockets.utils import accept_key

from dbg_broker.net.http import HttpAnswer, Upgrade
from dbg_wire import limits
from dbg_wire.version import subprotocol

MAX_HEAD_BYTES = 16 * limits.KIB
"""Bytes of a request's line and headers: a rank's or terminal's has 400, and a browser's with its cookies fits."""

MAX_HEADERS = 128
"""Headers of a request: a rank's has 9, a browser's 20."""

_LINE = re.compile(rb"GET ([\x21-\x7e]+) HTTP/1\.([01])")
_HEADER = re.compile(rb"([-!#$%&'*+.^_`|~0-9A-Za-z]+):([\t\x20-\x7e\x80-\xff]*)")
_KEY = re.compile(r"[A-Za-z0-9+/]{22}==")
"""16 bytes in base64."""


class NoRequest(Exception):
    """The bytes are no request that the broker reads; the text says why."""


class Head(NamedTuple):
    """The head of a request.

    ``lines`` are the line and headers of a GET, and ``rest`` the bytes after them; both are empty for other methods.
    """

    method: str
    target: str
    lines: bytes = b""
    rest: bytes = b""


def read_head(data: bytes) -> Head | None:
    """Return the head of a request, or None if it is not complete. Raise NoRequest if it can't become one."""
    method, space, after = data.partition(b" ")
    if not (method.isalpha() and method.isupper() and len(method) < 16) and (space or len(method) >= 8):
        raise NoRequest("it is no HTTP request")
    if b"\r\n\r\n" not in after:
        if len(data) > MAX_HEAD_BYTES:
            raise NoRequest("its request has no end")
        return None
    name, target = method.decode("ascii"), after.partition(b" ")[0].decode("ascii", "replace")
    if name != "GET":
        return Head(name, target)
    head, end, rest = data.partition(b"\r\n\r\n")
    return Head(name, target, head + end, rest)


class Request(NamedTuple):
    """A GET: its target, the minor version of its HTTP, and its headers by their names in lower case."""

    target: str
    minor: int
    headers: dict[str, list[str]]

    def all(self, name: str) -> list[str]:
        """Return the values of a header, in their order."""
        return self.headers.get(name, [])

    def items(self, name: str) -> list[str]:
        """Return the items of a header whose values are lists."""
        return [item.strip(" \t") for value in self.all(name) for item in value.split(",")]


def read_request(lines: bytes) -> Request:
    """Return the request in the lines of a :class:`Head`. Raise NoRequest if it is not well formed, or has a body."""
    first, *rest = lines.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _LINE.fullmatch(first)
    if found is None:
        raise NoRequest("its request is no WebSocket handshake")
    if len(rest) > MAX_HEADERS:
        raise NoRequest(f"its request has more than {MAX_HEADERS} headers")
    headers: dict[str, list[str]] = {}
    for line in rest:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise NoRequest("its request has a line that is no header")
        value = header[2].strip(b" \t").decode("latin-1")
        headers.setdefault(header[1].decode("ascii").lower(), []).append(value)
    if "transfer-encoding" in headers or headers.get("content-length", ["0"]) != ["0"]:
        raise NoRequest("its request has a body")
    return Request(found[1].decode("ascii"), int(found[2]), headers)


def upgrade_of(request: Request) -> Upgrade:
    """Return what decides whether a request may become a WebSocket."""
    authorizations, origins = request.all("authorization"), request.all("origin")
    return Upgrade(
        path=request.target,
        # Of two headers neither counts, as it is not known which of them is meant.
        authorization=authorizations[0] if len(authorizations) == 1 else None,
        origin=origins[0] if origins else None,
        subprotocols=request.items("sec-websocket-protocol"),
    )


def switching(request: Request) -> bytes | HttpAnswer:
    """Return the bytes that make a request's connection a WebSocket, or the answer to one that asks for none."""
    if request.minor == 0:
        return HttpAnswer(505, "a WebSocket needs HTTP/1.1\n")
    options = [option.lower() for option in request.items("connection")]
    if "upgrade" not in options or [name.lower() for name in request.items("upgrade")] != ["websocket"]:
        return HttpAnswer(426, "only WebSockets are here; the client is dbg-attach\n", {"Upgrade": "websocket"})
    keys = request.all("sec-websocket-key")
    if len(keys) != 1 or _KEY.fullmatch(keys[0]) is None:
        return HttpAnswer(400, "the Sec-WebSocket-Key is not 16 bytes in base64\n")
    if request.all("sec-websocket-version") != ["13"]:
        return HttpAnswer(400, "the Sec-WebSocket-Version is not 13\n")
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept_key(keys[0])}\r\nSec-WebSocket-Protocol: {subprotocol()}\r\n\r\n"
    ).encode()


def answer_bytes(answer: HttpAnswer, *, with_body: bool = True) -> bytes:
    """Return an answer as it goes over the wire, after which the connection ends."""
    body = answer.body.encode()
    headers = {"Connection": "close", "Content-Length": str(len(body)), "Content-Type": answer.content_type}
    lines = [f"{name}: {value}" for name, value in {**headers, **answer.headers}.items()]
    head = "\r\n".join([f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}", *lines, "", ""])
    return head.encode("latin-1", "replace") + (body if with_body else b"")
