"""Where a broker listens, and the name of this host that it tells others."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

from dbg_broker.net.tcp import BACKLOG, PortTaken, listen
from dbg_broker.settings import LOOPBACK, Listen, ports_to_try
from dbg_wire.errors import BadInput

INHERITED = 3
"""The descriptor of the first socket that systemd gives a service, by its protocol of ``LISTEN_FDS``."""


def inherited(environ: Mapping[str, str], pid: int) -> socket.socket | None:
    """Return the socket that systemd keeps for this process, over restarts; None if there is none.

    Connections that come while no broker runs wait there for the next one. Raise BadInput for a socket of another kind.
    """
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(pid) or not count.isdigit() or int(count) < 1:
        return None
    os.set_inheritable(INHERITED, False)
    try:
        listener = socket.socket(fileno=INHERITED)
        listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        is_tcp = listener.type == socket.SOCK_STREAM and listener.family in (socket.AF_INET, socket.AF_INET6)
    except OSError:
        listens = is_tcp = False
    if not (listens and is_tcp) or int(count) != 1:
        raise BadInput(
            f"LISTEN_FDS {count} of this service is not one TCP socket that listens",
            "give its .socket unit one ListenStream=HOST:PORT, and nothing else",
        )
    listener.setblocking(False)
    listener.listen(BACKLOG)
    return listener


def address_of(listener: socket.socket) -> Listen:
    """Return the address at which a socket listens."""
    host, port = listener.getsockname()[:2]
    return Listen(host=host, port=port)


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
