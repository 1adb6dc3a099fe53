"""HTTP as the WebSocket library reads it, and as we write it ourselves: a request's parts, an answer's bytes."""

from __future__ import annotations

import contextlib
from http import HTTPStatus

from websockets.exceptions import WebSocketException
from websockets.headers import parse_subprotocol
from websockets.http11 import Request

from dbg_broker.net.http import Answer, Upgrade


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
        # Two of them are none: which one counts is nothing to guess.
        authorization=authorizations[0] if len(authorizations) == 1 else None,
        origin=origins[0] if origins else None,
        subprotocols=offered,
    )


def target_of(rest: bytes) -> str:
    """Return the path in a request's bytes after its method."""
    return rest.partition(b" ")[0].decode("ascii", "replace")


def answer_bytes(answer: Answer, *, with_body: bool = True) -> bytes:
    """Return an answer as it goes over the wire, after which the connection ends."""
    body = answer.body.encode()
    headers = {"Connection": "close", "Content-Length": str(len(body)), "Content-Type": answer.content_type}
    lines = [f"{name}: {value}" for name, value in {**headers, **answer.headers}.items()]
    head = "\r\n".join([f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}", *lines, "", ""])
    return head.encode("latin-1", "replace") + (body if with_body else b"")
