"""``dbg-broker serve``: one broker for one home, from its lock to its shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import shlex
import signal
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dbg_broker.allowed import Allowed
from dbg_broker.audit.entries import Entry, What
from dbg_broker.audit.writer import AuditLog
from dbg_broker.classic.sessions import StockSessions
from dbg_broker.home.bearer import Role
from dbg_broker.home.certificate import server_context
from dbg_broker.home.in_use import Leaving
from dbg_broker.home.rendezvous import (
    HomeLock,
    lock,
    open_home,
    read_rendezvous,
    remove_rendezvous,
    write_rendezvous,
)
from dbg_broker.home.tokens import (
    THROW_AWAY_DIRECTORY,
    TOKENS_DIRECTORY,
    Tokens,
    load_tokens,
    make_throw_away_tokens,
    remove_throw_away_tokens,
)
from dbg_broker.hub.reception import Reception
from dbg_broker.hub.state import Hub
from dbg_broker.log import LogFormatter, start_log
from dbg_broker.net.capacity import MANY, Capacity
from dbg_broker.net.listener import PortTaken, listen
from dbg_broker.net.server import Server
from dbg_broker.settings import LOOPBACK, Listen, ServeSettings, ports_to_try
from dbg_broker.verbs.probe import answers
from dbg_dial.kernel import kernel_name
from dbg_wire.endpoint import Endpoint, Rendezvous, wrong_host_reason
from dbg_wire.errors import BadSecretFile, DbgError, printable
from dbg_wire.version import PROTOCOL_MINOR, RELEASE

logger = logging.getLogger("dbg_broker")

PROBE_SECONDS = 2.0
"""Seconds given to a broker named by an older broker.json: a broker on this cluster takes milliseconds."""


class AlreadyServing(DbgError):
    """Another broker serves this home already."""

    def __init__(self, home: str, first: Rendezvous | None) -> None:
        super().__init__(home, first)
        self.home = home
        self.first = first

    def __str__(self) -> str:
        shown = printable(self.home)
        if self.first is None:
            return f"another broker is starting in the home {shown}; stop it, or give --home another directory"
        who = f"{printable(self.first.url)} (host {printable(self.first.host)}, pid {self.first.pid})"
        return f"the home {shown} is served already, by {who}; use that one, stop it, or give --home another directory"


def serve(settings: ServeSettings, say: Callable[[str], None]) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit status; ``say`` prints a line. Raise DbgError."""
    log = start_log(settings.verbosity)
    home = open_home(settings.home)
    with _take_home(home):
        remove_throw_away_tokens(home)
        context, fingerprint = (None, None) if settings.insecure else server_context(home)
        tokens = make_throw_away_tokens(home) if settings.insecure else load_tokens(home)
        log.hide(tokens.by_name().values())
        _raise_descriptor_limit()
        listener = _listen(settings.listen)
        classic: socket.socket | None = None
        try:
            classic = _listen_classic(settings.classic)
            endpoint = Endpoint(
                host=_host_for_others(settings.listen),
                port=listener.getsockname()[1],
                secure=context is not None,
                fingerprint=fingerprint,
            )
            setup = _Setup(
                home=home,
                tokens=tokens,
                listener=listener,
                context=context,
                endpoint=endpoint,
                idle_seconds=settings.idle_seconds,
                log=log,
                allowed=settings.allowed,
                audits_input=settings.audits_input,
            )
            asyncio.run(
                _run(setup, _Stock(classic, settings.classic_size), partial(_announce, settings, setup, classic, say))
            )
        finally:
            listener.close()
            if classic is not None:
                classic.close()
            remove_throw_away_tokens(home)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setup:
    """All that one broker serves with."""

    home: Path
    tokens: Tokens
    listener: socket.socket
    context: ssl.SSLContext | None
    endpoint: Endpoint
    idle_seconds: float | None
    """Seconds without use after which the broker ends; None for never."""
    log: LogFormatter
    allowed: Allowed
    audits_input: bool


@dataclass(frozen=True, slots=True)
class _Stock:
    """Where stock debuggers are taken, if at all, and the (rows, columns) of their screens."""

    listener: socket.socket | None
    size: tuple[int, int] | None


async def _run(setup: _Setup, stock: _Stock, announce: Callable[[], None]) -> None:
    home, tokens, endpoint = setup.home, setup.tokens, setup.endpoint
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_loop_error)
    host, pid = socket.gethostname(), os.getpid()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Under nohup SIGHUP is ignored, and stays so.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stopping.set)
    hub = Hub(
        host=host,
        pid=pid,
        kernel=kernel_name(),
        clock=loop.time,
        schedule=loop.call_later,
        capacity=Capacity(_descriptors()),
    )
    audit = AuditLog(home)
    hub.audit, hub.audits_input = audit.note, setup.audits_input
    audit.note(Entry(at=time.time(), what=What.START, text=f"{endpoint.url}, pid {pid}"))
    reread = partial(_read_again, loop, setup) if endpoint.secure else None
    server = Server(Reception(hub, tokens, reread), setup.listener, setup.context, allowed=setup.allowed)
    classic = StockSessions(hub, loop, stock.size)
    server.start()
    if stock.listener is not None:
        await classic.listen(stock.listener)
    write_rendezvous(home, _rendezvous(endpoint, tokens))
    leaving = Leaving(home, loop, lambda: hub.is_used, stopping.set, setup.idle_seconds)
    hub.on_unused = leaving.look
    try:
        announce()
        await stopping.wait()
    finally:
        leaving.close()
        remove_rendezvous(home, pid=pid, host=host)
        await classic.stop()
        await server.stop()
        audit.note(Entry(at=time.time(), what=What.END, text=f"pid {pid}"))
        audit.close()


def _rendezvous(endpoint: Endpoint, tokens: Tokens) -> Rendezvous:
    return Rendezvous(
        url=endpoint.url,
        host=socket.gethostname(),
        pid=os.getpid(),
        fingerprint=endpoint.fingerprint,
        tokens={"rank": tokens.rank},
        driver_tokens=tokens.of_terminals(),
        minor=PROTOCOL_MINOR,
    )


def _read_again(loop: asyncio.AbstractEventLoop, setup: _Setup, then: Callable[[Tokens | DbgError], None]) -> None:
    """Read the tokens anew and write them where ranks and terminals look, in a thread: the home's disk may hang."""

    def read() -> Tokens | DbgError:
        try:
            tokens = load_tokens(setup.home)
            write_rendezvous(setup.home, _rendezvous(setup.endpoint, tokens))
        except BadSecretFile as error:
            return error
        setup.log.hide(tokens.by_name().values())
        return tokens

    loop.run_in_executor(None, read).add_done_callback(lambda done: then(done.result()))


def _take_home(home: Path) -> HomeLock:
    """Return the home's lock, or raise AlreadyServing if a broker holds it or answers at what broker.json says."""
    held = lock(home)
    try:
        first = read_rendezvous(home)
    except BadSecretFile:
        if held is None:
            raise AlreadyServing(str(home), None) from None
        # The file can't be used, and it is about to be replaced.
        return held
    if held is None:
        raise AlreadyServing(str(home), first)
    if first is not None and _serves_elsewhere(first):
        held.release()
        raise AlreadyServing(str(home), first)
    return held


def _serves_elsewhere(first: Rendezvous) -> bool:
    reason = wrong_host_reason(first.endpoint, first.host, socket.gethostname(), who="terminal")
    if reason is not None:
        logger.warning("broker.json named a broker on the loopback of %s and is replaced", printable(first.host))
        return False
    return answers(first.endpoint, first.tokens.get("rank"), PROBE_SECONDS)


def _listen(where: Listen) -> socket.socket:
    *others, last = ports_to_try(where)
    for port in others:
        with contextlib.suppress(PortTaken):
            return listen(where.host, port)
    return listen(where.host, last)


def _listen_classic(where: Listen | None) -> socket.socket | None:
    return None if where is None else listen(where.host, where.port or 0, "--classic")


def _host_for_others(where: Listen) -> str:
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


def _raise_descriptor_limit() -> None:
    """Take the file descriptors that the host allows: each rank needs one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MANY if soft == resource.RLIM_INFINITY else soft


def _announce(
    settings: ServeSettings, setup: _Setup, classic: socket.socket | None, say: Callable[[str], None]
) -> None:
    endpoint = setup.endpoint
    home = shlex.quote(settings.home)
    directory = TOKENS_DIRECTORY if endpoint.secure else THROW_AWAY_DIRECTORY
    token_file = shlex.quote(str(Path(settings.home) / directory / Role.RANK.value))
    port = endpoint.port
    reached_at = LOOPBACK if settings.listen.is_everywhere else endpoint.url.partition("://")[2].rpartition(":")[0]
    address = str(endpoint).removeprefix("wss://")
    say(f"dbg-broker {RELEASE} ready at {endpoint.url} (pid {os.getpid()}, home {settings.home})")
    if settings.idle_seconds is not None:
        # A run has started this broker, and reads the first line only.
        return
    say(f"in a job script, where this home is shared:  export DBG_HOME={home}")
    say(f"where it is not:  export DBG_BROKER={shlex.quote(address)} DBG_TOKEN_FILE={token_file}")
    say(f"from your own machine:  ssh -L {port}:{reached_at}:{port} {socket.gethostname()}")
    if settings.listen.is_loopback:
        say("ranks on other hosts can't reach this loopback address; for them: dbg-broker serve --listen 0.0.0.0")
    if settings.classic is not None and classic is not None:
        _announce_classic(settings.classic, classic.getsockname()[1], say)
    if not endpoint.secure:
        logger.warning(
            "--insecure: tokens and sessions cross the network in the clear, and anybody who takes this port later may "
            "pose as broker; the tokens are this broker's alone and end with it"
        )


def _announce_classic(where: Listen, port: int, say: Callable[[str], None]) -> None:
    call = f"set_trace(host={_host_for_others(where)!r}, port={port}, term_size=(240, 72), reverse=True)"
    say(f"stock PuDB, without an agent:  from pudb.remote import set_trace; {call}")
    who = "any user of this host" if where.is_loopback else "anybody who reaches it"
    logger.warning("--classic: port %d is unauthenticated and in the clear: %s may show you a session there", port, who)


def _log_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    error = context.get("exception")
    if isinstance(error, OSError):
        logger.info("a connection failed: %s", error)
    else:
        logger.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)
