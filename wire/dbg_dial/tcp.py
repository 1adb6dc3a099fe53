"""TCP as all roles use it: small frames go out at once, and a peer's kernel is asked whether it is still there."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Any

from dbg_wire.limits import (
    CONNECTION_DEAD_SECONDS,
    KEEPALIVE_AGAIN_SECONDS,
    KEEPALIVE_SECONDS,
    RESEND_SECONDS,
)

Address = tuple[socket.AddressFamily, tuple[Any, ...]]
"""A family, and an address of it as :func:`socket.getaddrinfo` gives them."""

TCP_RTO_MAX_MS = 44
"""The option's number on Linux, which Python doesn't name yet."""

_LAST_ACK = struct.Struct("56xI")
"""Where Linux puts ``tcpi_last_ack_recv`` in ``struct tcp_info``, in milliseconds."""


async def connected(address: Address, *, keep_asking: bool = False) -> socket.socket:
    """Return a socket that the peer's kernel has taken; with ``keep_asking`` as the function of that name says.

    Raise OSError. One that is cancelled leaves nothing open.
    """
    family, name = address
    # The protocol is named, since asyncio sends small frames at once only where it is.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        if keep_asking:
            ask_peer(sock)
        # Where an address of the link's scope has a zone, it is in the number behind it as well.
        name = (str(name[0]).partition("%")[0], *name[1:])
        await asyncio.get_running_loop().sock_connect(sock, name)
    except BaseException:
        sock.close()
        raise
    return sock


def ask_peer(sock: socket.socket) -> None:
    """Have the kernel ask the peer's kernel every KEEPALIVE_SECONDS whether it is there."""
    # A host that vanished says nothing: without this, its connection would stay for ever.
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_AGAIN_SECONDS),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, int(CONNECTION_DEAD_SECONDS / KEEPALIVE_AGAIN_SECONDS)),
    ):
        with suppress(OSError):
            sock.setsockopt(level, option, value)
    with suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, RESEND_SECONDS * 1000)
        # The kernel's patience is counted in attempts otherwise, and those are over in seconds then.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(CONNECTION_DEAD_SECONDS * 1000))


def seconds_since_ack(transport: asyncio.BaseTransport) -> float:
    """Return for how long the peer's kernel has said nothing, which is not the silence of its process; 0 if unknown.

    The kernel of a suspended process still acknowledges and answers keepalives; that of a host that vanished doesn't.
    """
    sock = transport.get_extra_info("socket")
    # A TLS transport forgets its socket as soon as that is closed.
    return 0.0 if sock is None else seconds_since_ack_of(sock)


def seconds_since_ack_of(sock: socket.socket) -> float:
    """Return the same of a socket that has no transport yet."""
    try:
        info: bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK.size)
        milliseconds: int = _LAST_ACK.unpack(info)[0]
    except (OSError, struct.error):
        return 0.0
    return milliseconds / 1000
