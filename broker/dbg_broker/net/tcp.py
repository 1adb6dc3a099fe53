"""TCP: listening sockets and their errors, options of an accepted connection, and its peer's address."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
from typing import Any

from dbg_dial.endpoint import ip_of
from dbg_dial.tcp import enable_keepalive
from dbg_wire import limits
from dbg_wire.errors import DbgError

TERMINAL_SEND_BUFFER = 64 * limits.KIB
"""Size of the kernel's send buffer for a terminal, in bytes. It is small, because the broker can't drop output in this
buffer, and such output delays all that follows.
"""

TERMINAL_UNSENT = 16 * limits.KIB
"""Maximum number of unsent bytes in the kernel for a terminal: on a slow connection they delay all later output."""

BACKLOG = 4096
"""Length of the kernel's accept queue. With asyncio's default of 100, it would take 2,000 ranks seconds to connect."""


def prepare(listener: socket.socket) -> None:
    """Make the kernel send small frames of a listener's connections at once, and probe the hosts of silent peers.

    A connection inherits these options from the listening socket, so nothing has to be set for each one.
    """
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    enable_keepalive(listener)


def keep_little(connected: socket.socket) -> None:
    """Reduce the bytes that the kernel buffers for a terminal."""
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, TERMINAL_SEND_BUFFER)
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, TERMINAL_UNSENT)


def peer_name(address: object) -> str:
    """Return a socket's address in the usual notation."""
    if isinstance(address, tuple) and len(address) >= 2:
        host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
        return f"{host}:{address[1]}"
    return "?"


def host_of(peer: str) -> str:
    """Return the host part of :func:`peer_name`."""
    return peer.rpartition(":")[0]


def network_of(peer: str) -> str:
    """Return the address under which a peer is counted: an IPv4 address, or the /64 network of an IPv6 address.

    One host owns all addresses of such a network.
    """
    address = ip_of(host_of(peer))
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


def has_bytes(connected: socket.socket) -> bool:
    """Return True if a peer has sent bytes that have not been read."""
    try:
        return bool(connected.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:
        return False


_tls_buffer = bytearray(64 * limits.KIB)
"""Read buffer of all TLS connections: asyncio empties it before it reads from another socket."""

_tls_view = memoryview(_tls_buffer)


def share_tls_buffer(transport: asyncio.BaseTransport) -> None:
    """Make a TLS connection use the shared read buffer; asyncio's own buffer for each one has 256 KiB."""
    protocol: Any = getattr(transport, "_ssl_protocol", None)
    if hasattr(protocol, "_ssl_buffer_view"):
        protocol._ssl_buffer, protocol._ssl_buffer_view = _tls_buffer, _tls_view


class PortTaken(DbgError):
    """Raised if another program listens at the given address."""

    def __init__(self, host: str, port: int, option: str = "--listen") -> None:
        super().__init__(host, port, option)
        self.host = host
        self.port = port
        self.option = option

    def __str__(self) -> str:
        return (
            f"port {self.port} on {self.host} is taken; `ss -ltnp 'sport = :{self.port}'` shows by which program, "
            f"or give {self.option} another port"
        )


class CantListen(DbgError):
    """Raised if the broker can't listen at the given address."""

    def __init__(self, host: str, port: int, reason: str, option: str = "--listen") -> None:
        super().__init__(host, port, reason, option)
        self.host = host
        self.port = port
        self.reason = reason
        self.option = option

    def __str__(self) -> str:
        return (
            f"can't listen on {self.host}, port {self.port} ({self.reason}); give {self.option} an address of this host"
        )


def listen(host: str, port: int, option: str = "--listen") -> socket.socket:
    """Return a socket that listens at host and port; port 0 means a free one. Raise PortTaken or CantListen."""
    listener: socket.socket | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # A name such as localhost may have an IPv4 and an IPv6 address. Listen at IPv4: a peer that tries IPv6 first
        # tries IPv4 next.
        family, kind, protocol, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
        listener = socket.socket(family, kind, protocol)
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and host == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Set the options before listening, because a rank may connect at once. A broker that joins a cluster accepts
        # the connection much later.
        prepare(listener)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(host, port, option) from None
        raise CantListen(host, port, error.strerror or str(error), option) from None
    return listener
