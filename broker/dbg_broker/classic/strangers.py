"""Callers of the classic port that are no stock debuggers, and the answer to each. Pure."""

from __future__ import annotations

import codecs
import re

PORT_IS_FOR = "this port of dbg-broker is for stock pudb.remote.set_trace(reverse=True) alone"

_HTTP = re.compile(rb"(?:GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH|PRI) ")
_TLS_HELLO = re.compile(rb"\x16\x03")
_TLS_REFUSAL = b"\x15\x03\x01\x00\x02\x02\x28"
"""A fatal alert, handshake_failure: a TLS client reports it instead of a broken connection."""


def answer_to_noise(head: bytes) -> bytes | None:
    """Return the answer to a caller whose first bytes are ``head``; None if it may be a debugger.

    A debugger writes UTF-8 and neither NUL nor telnet's commands.
    """
    if _HTTP.match(head):
        return http_refusal(PORT_IS_FOR)
    if _TLS_HELLO.match(head):
        return _TLS_REFUSAL
    if b"\0" in head or not _is_utf8(head):
        return sentence(PORT_IS_FOR)
    return None


def sentence(text: str) -> bytes:
    """Return a refusal as a line of text."""
    return f"dbg-broker: {text}\r\n".encode()


def http_refusal(text: str) -> bytes:
    """Return a refusal as an HTTP response."""
    body = f"{text}; a browser has no business here\n".encode()
    head = (
        f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    )
    return head.encode() + b"\r\n" + body


def _is_utf8(data: bytes) -> bool:
    try:
        # The last character may be cut.
        codecs.getincrementaldecoder("utf-8")("strict").decode(data)
    except UnicodeDecodeError:
        return False
    return True
