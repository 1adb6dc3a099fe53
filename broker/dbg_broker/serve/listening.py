"""Listening sockets of a broker, including one from systemd, and the lines that announce where it listens."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from dbg_broker.home.tokens import TOKENS_DIRECTORY, Role
from dbg_broker.net.tcp import BACKLOG, PortTaken, listen
from dbg_broker.settings import LOOPBACK, Listen, ServeSettings, ports_to_try
from dbg_dial.endpoint import Endpoint
from dbg_wire import RELEASE
from dbg_wire.errors import BadInput

INHERITED = 3
"""Descriptor of the first socket that systemd passes to a service, by its protocol of ``LISTEN_FDS``."""

logger = logging.getLogger("dbg_broker")


def inherited(environ: Mapping[str, str], pid: int) -> socket.socket | None:
    """Return the socket that systemd keeps open for this service over restarts, or None.

    Connections that arrive while no broker runs wait there. Raise BadInput if it is not a listening TCP socket.
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
            f"LISTEN_FDS {count} of this service is not exactly one listening TCP socket",
            "put one ListenStream=HOST:PORT into its .socket unit, and nothing else",
        )
    listener.setblocking(False)
    listener.listen(BACKLOG)
    return listener


def address_of(listener: socket.socket) -> Listen:
    """Return the address of a listening socket."""
    host, port = listener.getsockname()[:2]
    return Listen(host=host, port=port)


def listen_for_peers(where: Listen) -> socket.socket:
    """Return a socket for ranks and terminals. Raise PortTaken or CantListen."""
    *others, last = ports_to_try(where)
    for port in others:
        with contextlib.suppress(PortTaken):
            return listen(where.host, port)
    return listen(where.host, last)


def listen_for_stock(where: Listen) -> socket.socket:
    """Return a socket for stock debuggers. Raise PortTaken or CantListen."""
    return listen(where.host, where.port or 0, "--classic")


def host_for_others(where: Listen) -> str:
    """Return the host for the broker's URL: the name of this host if the broker listens at all addresses."""
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
    """Return the address from which this host sends. Nothing is sent: a datagram socket is only connected."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        address: str = probe.getsockname()[0]
        return address
    return LOOPBACK


def announce(
    settings: ServeSettings,
    endpoint: Endpoint,
    classic: socket.socket | None,
    print_line: Callable[[str], None],
    columns: int | None = None,
) -> None:
    """Announce where this broker serves, and how ranks and terminals on this and other hosts connect to it.

    ``columns`` is the width of the terminal that shows it, or None without a terminal.
    """
    home = shlex.quote(settings.home)
    token_file = shlex.quote(str(Path(settings.home) / TOKENS_DIRECTORY / Role.RANK.value))
    port = endpoint.port
    reached_at = LOOPBACK if settings.listen.is_everywhere else endpoint.url.partition("://")[2].rpartition(":")[0]
    address = str(endpoint).removeprefix("wss://")
    print_line(f"dbg-broker {RELEASE} ready at {endpoint.url} (pid {os.getpid()}, home {settings.home})")
    if settings.idle_seconds is not None:
        # `dbg-attach run` has started this broker, and reads only the first line.
        return
    print_line(f"in a job script, where this home is shared:  export DBG_HOME={home}")
    for line in lines_to_paste("where it is not", address, f"DBG_TOKEN_FILE={token_file}", columns):
        print_line(line)
    print_line(f"from your own machine:  ssh -L {port}:{reached_at}:{port} {socket.gethostname()}")
    if settings.cluster is not None:
        print_line(f"one of several brokers, joined by NATS at {', '.join(settings.cluster.servers)}")
    if settings.listen.is_loopback:
        print_line(
            "ranks on other hosts can't reach this loopback address; for them: dbg-broker serve --listen 0.0.0.0"
        )
    if settings.classic is not None and classic is not None:
        _announce_classic(settings.classic, classic.getsockname()[1], print_line)
        if settings.max_lease is not None:
            print_line("--max-lease does not apply to stock debuggers: they resume only by their own keys")


def lines_to_paste(when: str, address: str, more: str, columns: int | None) -> list[str]:
    """Return the line that sets DBG_BROKER and ``more`` in a shell, or several lines if a terminal would wrap it.

    If a wrapped line is copied from tmux or screen, it has a newline inside the fingerprint.
    """
    line = f"{when}:  export DBG_BROKER={shlex.quote(address)} {more}".rstrip()
    if columns is None or len(line) <= columns:
        return [line]
    # Quoted pieces with a backslash and a newline between them are one word in every shell.
    pieces = "\\\n".join(shlex.quote(piece) for piece in re.split(r"(?<=sha256:)", address))
    return [f"{when}:", *([f"export {more}"] if more else []), *f"export DBG_BROKER={pieces}".split("\n")]


def _announce_classic(where: Listen, port: int, print_line: Callable[[str], None]) -> None:
    call = f"set_trace(host={host_for_others(where)!r}, port={port}, term_size=(240, 72), reverse=True)"
    print_line(f"stock PuDB, without an agent:  from pudb.remote import set_trace; {call}")
    who = "any user of this host" if where.is_loopback else "anybody who can reach it"
    logger.warning("--classic: port %d is unauthenticated and unencrypted: %s may show you a session there", port, who)
