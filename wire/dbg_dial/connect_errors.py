"""Conversion of library errors into errors that explain why the connection to a broker failed."""

from __future__ import annotations

import os
import socket
import ssl

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from dbg_wire.errors import (
    BrokerUnreachable,
    ConnectionClosedEarly,
    DbgError,
    NotABroker,
    Refused,
    UntrustedCertificate,
    WrongToken,
    WrongVersion,
)


def explain(url: str, error: BaseException, seconds: float) -> BaseException:
    """Convert an error into a DbgError that explains the failed connection; return other errors unchanged."""
    if isinstance(error, DbgError):
        return error
    if isinstance(error, InvalidStatus):
        body = bytes(error.response.body or b"").decode("utf-8", "replace").strip()
        return refusal(url, error.response.status_code, body)
    if isinstance(error, ssl.SSLCertVerificationError):
        return UntrustedCertificate(url, error.verify_message.rstrip("."))
    if isinstance(error, ssl.SSLError):
        return NotABroker(url, f"the TLS handshake failed: {getattr(error, 'reason', None) or error}")
    if isinstance(error, TimeoutError):
        return BrokerUnreachable(url, f"no answer within {seconds:g} s")
    if isinstance(error, (ConnectionResetError, EOFError)) or isinstance(error.__cause__, EOFError):
        return ConnectionClosedEarly(url)
    if isinstance(error, ConnectionClosed):
        return BrokerUnreachable(url, "the connection was closed")
    if isinstance(error, socket.gaierror):
        return BrokerUnreachable(url, f"the host name can't be resolved: {error.strerror or 'unknown host'}")
    if isinstance(error, OSError):
        # asyncio puts the address into strerror, so the kernel's own text is used. If a host has several addresses and
        # all of them fail, asyncio's error has a text but no number.
        why = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
        return BrokerUnreachable(url, why)
    if isinstance(error, (InvalidHandshake, WebSocketException, ValueError)):
        return NotABroker(url, f"the WebSocket handshake failed: {error}")
    return error


def refusal(url: str, status: int, body: str) -> DbgError:
    """Return the error for an HTTP status in response to the WebSocket upgrade."""
    reason = body or f"HTTP status {status}"
    if status in (401, 403):
        return WrongToken(url, reason)
    return WrongVersion(url, reason) if status == 426 else Refused(url, reason)
