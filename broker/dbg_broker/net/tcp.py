"""What the kernel is told about connections, and asked about them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

from dbg_wire import limits

TERMINAL_SEND_BUFFER = 64 * limits.KIB
"""Bytes that the kernel keeps for a terminal: what is in there can't be dropped any more, and delays all after it."""

_KEEPALIVES = int(limits.CONNECTION_DEAD_SECONDS / limits.KEEPALIVE_AGAIN_SECONDS)
"""Unanswered questions of the kernel after which it ends a connection."""

TCP_RTO_MAX_MS = 44
"""The option's number on Linux, which Python doesn't name yet."""

_LAST_ACK = struct.Struct("56xI")
"""Where Linux puts ``tcpi_last_ack_recv`` in ``struct tcp_info``, in milliseconds."""


def tune(transport: asyncio.Transport, *, to_terminal: bool) -> None:
    """Have a silent peer's host asked whether it is still there, and keep little in the kernel for a terminal."""
    connected = transport.get_extra_info("socket")
    if connected is None:
        # A TLS transport forgets its socket as soon as that is closed.
        return
    options = [
        # A host that vanished says nothing: without this, its connection would stay for ever.
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, limits.KEEPALIVE_SECONDS),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, limits.KEEPALIVE_AGAIN_SECONDS),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVES),
    ]
    if to_terminal:
        options.append((socket.SOL_SOCKET, socket.SO_SNDBUF, TERMINAL_SEND_BUFFER))
    for option in options:
        with contextlib.suppress(OSError):
            connected.setsockopt(*option)
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, limits.RESEND_SECONDS * 1000)
        # Its patience is counted in attempts otherwise, and those are over in seconds then.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limits.CONNECTION_DEAD_SECONDS * 1000))


def seconds_since_ack(transport: asyncio.Transport) -> float:
    """Return for how long the peer's kernel has said nothing, which is not the silence of its process.

    The kernel of a suspended process still acknowledges and answers keepalives; that of a host that vanished doesn't.
    0 if it can't be told.
    """
    connected = transport.get_extra_info("socket")
    if connected is None:
        # A TLS transport forgets its socket as soon as that is closed.
        return 0.0
    try:
        info: bytes = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK.size)
        milliseconds: int = _LAST_ACK.unpack(info)[0]
    except (OSError, struct.error):
        return 0.0
    return milliseconds / 1000


def peer_name(address: object) -> str:
    """Return a socket's address as people write it."""
    if isinstance(address, tuple) and len(address) >= 2:
        host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
        return f"{host}:{address[1]}"
    return "?"


def host_of(peer: str) -> str:
    """Return the host's part of :func:`peer_name`."""
    return peer.rpartition(":")[0]
