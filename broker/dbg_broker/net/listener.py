"""Listening sockets, for peers and for stock debuggers, and the errors of opening one."""

from __future__ import annotations

import errno
import socket

from dbg_wire.errors import DbgError

BACKLOG = 4096
"""Connections that the kernel may hold before accept: with asyncio's 100, 2,000 ranks take seconds to connect."""


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
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(host, port, option) from None
        raise CantListen(host, port, error.strerror or str(error), option) from None
    return listener
