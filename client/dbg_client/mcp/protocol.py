"""The Model Context Protocol as far as a server of tools needs it: lines of JSON-RPC 2.0 to values and back. Pure.

The protocol is that of modelcontextprotocol.io, transport "stdio": one message on a line, in UTF-8.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
"""Versions of the protocol that are spoken, the newest first. Their tools are the same for what is used here."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
"""Error codes of JSON-RPC."""

RequestId = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, which is answered, or a notification, which has no ``id``."""

    method: str
    params: dict[str, Any]
    id: RequestId | None


class BadCall(Exception):
    """Say why a line is no request, with the code of JSON-RPC; answered, and never shown to a user."""

    def __init__(self, code: int, text: str, request: RequestId | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.request = request


def read_call(line: bytes) -> Call | None:
    """Return what a line asks for, None for an answer of the client, which asks for nothing. Raises BadCall."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise BadCall(PARSE_ERROR, "this line is no JSON") from None
    if not isinstance(document, dict) or document.get("jsonrpc") != "2.0":
        raise BadCall(INVALID_REQUEST, "this is no message of JSON-RPC 2.0")
    request = document.get("id")
    if request is not None and (not isinstance(request, (str, int)) or isinstance(request, bool)):
        raise BadCall(INVALID_REQUEST, "the id is neither a text nor a whole number")
    method, params = document.get("method"), document.get("params", {})
    if method is None and ("result" in document or "error" in document):
        return None
    if not isinstance(method, str) or not isinstance(params, dict):
        raise BadCall(INVALID_REQUEST, "the method is no text, or its params are no object", request)
    return Call(method=method, params=params, id=request)


def result_line(request: RequestId, result: dict[str, Any]) -> bytes:
    """Return the line that answers a request."""
    return _line({"jsonrpc": "2.0", "id": request, "result": result})


def error_line(request: RequestId | None, code: int, text: str) -> bytes:
    """Return the line that refuses a request."""
    return _line({"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": text}})


def progress_line(token: str | int, seconds: float, text: str) -> bytes:
    """Return the line that tells how long a call has been worked on, by the token that its client gave."""
    params = {"progressToken": token, "progress": seconds, "message": text}
    return _line({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


def progress_token(params: dict[str, Any]) -> str | int | None:
    """Return the token by which a client wants to be told of progress, None if it does not."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, (str, int)) and not isinstance(token, bool) else None


def text_result(text: str, *, is_error: bool = False) -> dict[str, Any]:
    """Return the result of a tool: one text."""
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def agreed_version(asked: object) -> str:
    """Return the version to speak: the client's if it is known, else the newest."""
    return asked if isinstance(asked, str) and asked in VERSIONS else VERSIONS[0]


def _line(document: dict[str, Any]) -> bytes:
    # A lone surrogate, which a rank's text may hold, is escaped.
    return json.dumps(document).encode() + b"\n"
