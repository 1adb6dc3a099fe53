"""TCP: listening sockets and the errors of opening one, options of an accepted connection, and its peer's address."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
from typing import Any

from dbg_dial.endpoint import ip_of
from dbg_dial.tcp import ask_peer
from dbg_wire import limits
from dbg_wire.errors import DbgError

TERMINAL_SEND_BUFFER = 64 * limits.KIB
"""Bytes that the kernel keeps for a terminal: they can't be dropped any more, and delay all later bytes."""

TERMINAL_UNSENT = 16 * limits.KIB
"""Bytes that the kernel takes for a terminal before it can send them: on a slow line they delay all later ones."""

BACKLOG = 4096
"""Connections that the kernel may hold before accept: with asyncio's 100, 2,000 ranks take seconds to connect."""


def prepare(listener: socket.socket) -> None:
    """Have connections send small frames at once, and ask a silent peer's host whether it is there.

    A connection has these options of the socket that accepts it: nothing is to be set for each.
    """
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ask_peer(listener)


def keep_little(connected: socket.socket) -> None:
    """Keep little in the kernel for a terminal."""
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, TERMINAL_SEND_BUFFER)
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, TERMINAL_UNSENT)


def peer_name(address: object) -> str:
    """Return a socket's address as people write it."""
    if isinstance(address, tuple) and len(address) >= 2:
        host = f"[{address[0]}]" if ":" in str(address[0]) else address[0]
        return f"{host}:{address[1]}"
    return "?"


def host_of(peer: str) -> str:
    """Return the host's part of :func:`peer_name`."""
    return peer.rpartition(":")[0]


def network_of(peer: str) -> str:
    """Return the address by which a peer is counted: an IPv4 address, or the /64 network of an IPv6 one.

    One host has all addresses of such a network.
    """
    address = ip_of(host_of(peer))
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


def has_bytes(connected: socket.socket) -> bool:
    """Whether a peer has sent something that nobody has read."""
    try:
        return bool(connected.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:
        return False


_tls_buffer = bytearray(64 * limits.KIB)
"""Where bytes of all TLS connections are read to: asyncio takes them out before it reads from another socket."""

_tls_view = memoryview(_tls_buffer)


def share_tls_buffer(transport: asyncio.BaseTransport) -> None:
    """Have a TLS connection read into a buffer that all of them share; asyncio keeps 256 KiB for each one."""
    protocol: Any = getattr(transport, "_ssl_protocol", None)
    if hasattr(protocol, "_ssl_buffer_view"):
        protocol._ssl_buffer, protocol._ssl_buffer_view = _tls_buffer, _tls_view


class PortTaken(DbgError):
    """Another program listens at the address that the broker was given."""

    def __init__(self, host: str, port: int, option: str = "--listen") -> None:
        super().__init__(host, port, option)
        self.host = host
        self.port = port
        self.option = option

    def __str__(self) -> str:
        return (
            f"port {self.port} on {self.host} is taken; `ss -ltnp 'sport = :{self.port}'` names who listens there, "
            f"or give {self.option} another port"
        )


class CantListen(DbgError):
    """The broker can't listen at the address that it was given."""

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
    """Return a socket that listens at host and port; 0 takes a free one. Raise PortTaken or CantListen."""
    listener: socket.socket | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # A name may stand for an IPv4 and an IPv6 loopback; a peer that tries the IPv6 one first tries this one next.
        family, kind, protocol, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
        listener = socket.socket(family, kind, protocol)
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and host == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Ranks dial as soon as it listens, long before a broker that joins others begins to accept.
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
