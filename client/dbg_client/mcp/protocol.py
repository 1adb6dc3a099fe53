"""The part of the Model Context Protocol that a tool server needs: JSON-RPC 2.0 lines to values and back. Pure.

The protocol is defined at modelcontextprotocol.io. The transport is "stdio": one message per line, in UTF-8.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
"""Supported protocol versions, newest first. The features used here are the same in all of them."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
"""JSON-RPC error codes."""

RequestId = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, which needs a response, or a notification, which has no ``id``."""

    method: str
    params: dict[str, Any]
    id: RequestId | None


class BadCall(Exception):
    """Raised when a line is not a valid request, with the JSON-RPC code; sent to the client, never shown to a user."""

    def __init__(self, code: int, text: str, request: RequestId | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.request = request


def read_call(line: bytes) -> Call | None:
    """Return the call in a line, or None if the line is a response of the client. Raises BadCall."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise BadCall(PARSE_ERROR, "this line is not valid JSON") from None
    if not isinstance(document, dict) or document.get("jsonrpc") != "2.0":
        raise BadCall(INVALID_REQUEST, "this is not a JSON-RPC 2.0 message")
    request = document.get("id")
    if request is not None and (not isinstance(request, (str, int)) or isinstance(request, bool)):
        raise BadCall(INVALID_REQUEST, "the id is neither a string nor an integer")
    method, params = document.get("method"), document.get("params", {})
    if method is None and ("result" in document or "error" in document):
        return None
    if not isinstance(method, str) or not isinstance(params, dict):
        raise BadCall(INVALID_REQUEST, "the method is not a string, or params is not an object", request)
    return Call(method=method, params=params, id=request)


def result_line(request: RequestId, result: dict[str, Any]) -> bytes:
    """Return the line with the response to a request."""
    return _line({"jsonrpc": "2.0", "id": request, "result": result})


def error_line(request: RequestId | None, code: int, text: str) -> bytes:
    """Return the line with an error response."""
    return _line({"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": text}})


def progress_line(token: str | int, seconds: float, text: str) -> bytes:
    """Return the line that reports how long an open call has run, with the client's progress token."""
    params = {"progressToken": token, "progress": seconds, "message": text}
    return _line({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


def progress_token(params: dict[str, Any]) -> str | int | None:
    """Return the client's progress token, or None if it does not want progress notifications."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, (str, int)) and not isinstance(token, bool) else None


def text_result(text: str, *, is_error: bool = False) -> dict[str, Any]:
    """Return a tool result with one text."""
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def agreed_version(asked: object) -> str:
    """Return the client's version if it is supported, else the newest."""
    return asked if isinstance(asked, str) and asked in VERSIONS else VERSIONS[0]


def _line(document: dict[str, Any]) -> bytes:
    # ``json.dumps`` escapes lone surrogates, which a rank's text may contain.
    return json.dumps(document).encode() + b"\n"
