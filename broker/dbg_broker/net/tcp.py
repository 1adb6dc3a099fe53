"""TCP: listening sockets and the errors of opening one, options of an accepted connection, and its peer's address."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct

from dbg_dial.tcp import ask_peer
from dbg_wire import limits
from dbg_wire.errors import DbgError

TERMINAL_SEND_BUFFER = 64 * limits.KIB
"""Bytes that the kernel keeps for a terminal: they can't be dropped any more, and delay all later bytes."""

TERMINAL_UNSENT = 16 * limits.KIB
"""Bytes that the kernel takes for a terminal before it can send them: on a slow line they delay all later ones."""

BACKLOG = 4096
"""Connections that the kernel may hold before accept: with asyncio's 100, 2,000 ranks take seconds to connect."""

_UNACKED = struct.Struct("24xI")
"""Where Linux puts ``tcpi_unacked`` in ``struct tcp_info``: of a listening socket these are connections to accept."""


def unaccepted(listener: socket.socket) -> int:
    """Return how many connections wait in the kernel to be accepted."""
    (count,) = _UNACKED.unpack(listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _UNACKED.size))
    return int(count)


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
