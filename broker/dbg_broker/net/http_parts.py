"""HTTP around the WebSocket library: a request's parts, an answer's bytes."""

from __future__ import annotations

import contextlib
from http import HTTPStatus
from typing import NamedTuple

from websockets.exceptions import WebSocketException
from websockets.headers import parse_subprotocol
from websockets.http11 import Request

from dbg_broker.net.http import HttpAnswer, Upgrade
from dbg_wire import limits

MAX_HEAD_BYTES = 16 * limits.KIB
"""Bytes of a request's line and headers: a rank's or terminal's has 400, and a browser's with its cookies fits."""


def upgrade_of(request: Request) -> Upgrade:
    """Return what decides whether a request may become a WebSocket."""
    headers = request.headers
    offered: list[str] = []
    with contextlib.suppress(WebSocketException):
        for value in headers.get_all("Sec-WebSocket-Protocol"):
            offered.extend(parse_subprotocol(value))
    authorizations, origins = headers.get_all("Authorization"), headers.get_all("Origin")
    return Upgrade(
        path=request.path,
        # Of two headers neither counts, as it is not known which of them is meant.
        authorization=authorizations[0] if len(authorizations) == 1 else None,
        origin=origins[0] if origins else None,
        subprotocols=offered,
    )


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


def answer_bytes(answer: HttpAnswer, *, with_body: bool = True) -> bytes:
    """Return an answer as it goes over the wire, after which the connection ends."""
    body = answer.body.encode()
    headers = {"Connection": "close", "Content-Length": str(len(body)), "Content-Type": answer.content_type}
    lines = [f"{name}: {value}" for name, value in {**headers, **answer.headers}.items()]
    head = "\r\n".join([f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}", *lines, "", ""])
    return head.encode("latin-1", "replace") + (body if with_body else b"")
