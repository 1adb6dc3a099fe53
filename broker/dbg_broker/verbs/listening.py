"""Where a broker listens, and the name of this host that it tells others."""

from __future__ import annotations

import contextlib
import socket

from dbg_broker.net.listener import PortTaken, listen
from dbg_broker.settings import LOOPBACK, Listen, ports_to_try


def listen_for_peers(where: Listen) -> socket.socket:
    """Return a socket for ranks and terminals. Raise PortTaken or CantListen."""
    *others, last = ports_to_try(where)
    for port in others:
        with contextlib.suppress(PortTaken):
            return listen(where.host, port)
    return listen(where.host, last)


def listen_for_stock(where: Listen | None) -> socket.socket | None:
    """Return a socket for stock debuggers, if they are to be taken. Raise PortTaken or CantListen."""
    return None if where is None else listen(where.host, where.port or 0, "--classic")


def host_for_others(where: Listen) -> str:
    """Return what to put into the URL: a name for this host if it listens at all addresses."""
    if where.host.lower() == "localhost":
        return LOOPBACK
    if not where.is_everywhere:
        return where.host
    name = socket.gethostname()
    with contextlib.suppress(OSError):
        socket.getaddrinfo(name, None)
        return name
    return _own_address()


def _own_address() -> str:
    """Return the address this host would send from; connecting a datagram socket sends nothing."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        address: str = probe.getsockname()[0]
        return address
    return LOOPBACK
