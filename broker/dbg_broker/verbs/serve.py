"""``dbg-broker serve``: one broker for one home, from its lock to its shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dbg_broker.allowed import Allowed
from dbg_broker.audit.entries import Entry, What
from dbg_broker.audit.writer import AuditLog
from dbg_broker.classic.sessions import StockSessions
from dbg_broker.events.command import OnEvent
from dbg_broker.events.occasions import Occasions
from dbg_broker.home.certificate import server_context
from dbg_broker.home.in_use import Leaving
from dbg_broker.home.rendezvous import (
    open_home,
    remove_rendezvous,
    write_rendezvous,
)
from dbg_broker.home.tokens import (
    Tokens,
    load_tokens,
    make_throw_away_tokens,
    remove_throw_away_tokens,
)
from dbg_broker.hub.reception import Reception
from dbg_broker.hub.state import Hub
from dbg_broker.log import LogFormatter, start_log
from dbg_broker.net.capacity import MANY, Capacity
from dbg_broker.net.server import Server
from dbg_broker.settings import ServeSettings
from dbg_broker.verbs.announcing import announce
from dbg_broker.verbs.listening import address_of, host_for_others, inherited, listen_for_peers, listen_for_stock
from dbg_broker.verbs.service_manager import ServiceManager, status_line
from dbg_broker.verbs.taking_home import take_home
from dbg_dial.kernel import kernel_name
from dbg_wire.endpoint import Endpoint, Rendezvous
from dbg_wire.errors import BadSecretFile, DbgError
from dbg_wire.ranks import LIVE_STATES, RankState
from dbg_wire.version import PROTOCOL_MINOR

logger = logging.getLogger("dbg_broker")


def serve(settings: ServeSettings, say: Callable[[str], None]) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit status; ``say`` prints a line. Raise DbgError."""
    log = start_log(settings.verbosity, as_json=settings.logs_json)
    home = open_home(settings.home)
    with take_home(home):
        remove_throw_away_tokens(home)
        context, fingerprint = (None, None) if settings.insecure else server_context(home)
        tokens = make_throw_away_tokens(home) if settings.insecure else load_tokens(home)
        log.hide(tokens.by_name().values())
        _raise_descriptor_limit()
        kept = inherited(os.environ, os.getpid())
        if kept is not None:
            settings = replace(settings, listen=address_of(kept))
        listener = kept or listen_for_peers(settings.listen)
        classic: socket.socket | None = None
        try:
            classic = listen_for_stock(settings.classic)
            endpoint = Endpoint(
                host=host_for_others(settings.listen),
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
                on_event=settings.on_event,
                max_lease=settings.max_lease,
            )
            asyncio.run(
                _run(setup, _Stock(classic, settings.classic_size), partial(announce, settings, endpoint, classic, say))
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
    on_event: tuple[str, ...] = ()
    max_lease: float | None = None


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
    hub.max_lease = setup.max_lease
    on_event = OnEvent(setup.on_event, os.environ) if setup.on_event else None
    if on_event is not None:
        hub.occasions = Occasions(on_event.tell, clock=loop.time, wall=time.time, schedule=loop.call_later)
    manager = ServiceManager(os.environ, pid, loop.call_later)
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
        manager.ready(partial(_status, hub))
        await stopping.wait()
    finally:
        manager.stopping()
        leaving.close()
        remove_rendezvous(home, pid=pid, host=host)
        await classic.stop()
        await server.stop()
        audit.note(Entry(at=time.time(), what=What.END, text=f"pid {pid}"))
        audit.close()
        if on_event is not None:
            on_event.close()


def _status(hub: Hub) -> str:
    gauges = hub.gauges()
    live = sum(gauges.ranks[state] for state in LIVE_STATES)
    return status_line(live, gauges.ranks[RankState.STOPPED], gauges.terminals)


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


def _raise_descriptor_limit() -> None:
    """Take the file descriptors that the host allows: each rank needs one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MANY if soft == resource.RLIM_INFINITY else soft


def _log_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    error = context.get("exception")
    if isinstance(error, OSError):
        logger.info("a connection failed: %s", error)
    else:
        logger.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)
