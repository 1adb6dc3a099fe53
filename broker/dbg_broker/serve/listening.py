"""Listening sockets of a broker, those of systemd among them, and the lines that tell others where it listens."""

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
"""The descriptor of the first socket that systemd gives a service, by its protocol of ``LISTEN_FDS``."""

logger = logging.getLogger("dbg_broker")


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


def listen_for_stock(where: Listen) -> socket.socket:
    """Return a socket for stock debuggers. Raise PortTaken or CantListen."""
    return listen(where.host, where.port or 0, "--classic")


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


def announce(
    settings: ServeSettings,
    endpoint: Endpoint,
    classic: socket.socket | None,
    say: Callable[[str], None],
    columns: int | None = None,
) -> None:
    """Say where this broker serves, and how ranks and terminals of this and other hosts find it.

    ``columns`` is the width of the terminal that shows it, None if no terminal does.
    """
    home = shlex.quote(settings.home)
    token_file = shlex.quote(str(Path(settings.home) / TOKENS_DIRECTORY / Role.RANK.value))
    port = endpoint.port
    reached_at = LOOPBACK if settings.listen.is_everywhere else endpoint.url.partition("://")[2].rpartition(":")[0]
    address = str(endpoint).removeprefix("wss://")
    say(f"dbg-broker {RELEASE} ready at {endpoint.url} (pid {os.getpid()}, home {settings.home})")
    if settings.idle_seconds is not None:
        # A run has started this broker, and reads the first line only.
        return
    say(f"in a job script, where this home is shared:  export DBG_HOME={home}")
    for line in lines_to_paste("where it is not", address, f"DBG_TOKEN_FILE={token_file}", columns):
        say(line)
    say(f"from your own machine:  ssh -L {port}:{reached_at}:{port} {socket.gethostname()}")
    if settings.cluster is not None:
        say(f"one of several brokers, joined by NATS at {', '.join(settings.cluster.servers)}")
    if settings.listen.is_loopback:
        say("ranks on other hosts can't reach this loopback address; for them: dbg-broker serve --listen 0.0.0.0")
    if settings.classic is not None and classic is not None:
        _announce_classic(settings.classic, classic.getsockname()[1], say)
        if settings.max_lease is not None:
            say("--max-lease does not hold there: a stock debugger goes on by its own keys alone")


def lines_to_paste(when: str, address: str, more: str, columns: int | None) -> list[str]:
    """Return the line that sets DBG_BROKER, and more, in a shell; several if a terminal would break it.

    A line that the terminal breaks is copied from tmux or screen with a newline in the midst of the fingerprint.
    """
    line = f"{when}:  export DBG_BROKER={shlex.quote(address)} {more}".rstrip()
    if columns is None or len(line) <= columns:
        return [line]
    # Quoted pieces with a backslash between them are one word in each shell.
    pieces = "\\\n".join(shlex.quote(piece) for piece in re.split(r"(?<=sha256:)", address))
    return [f"{when}:", *([f"export {more}"] if more else []), *f"export DBG_BROKER={pieces}".split("\n")]


def _announce_classic(where: Listen, port: int, say: Callable[[str], None]) -> None:
    call = f"set_trace(host={host_for_others(where)!r}, port={port}, term_size=(240, 72), reverse=True)"
    say(f"stock PuDB, without an agent:  from pudb.remote import set_trace; {call}")
    who = "any user of this host" if where.is_loopback else "anybody who reaches it"
    logger.warning("--classic: port %d is unauthenticated and in the clear: %s may show you a session there", port, who)
