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
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from dbg_broker.admission import Admission
from dbg_broker.broker import Broker
from dbg_broker.classic.port import StockPort
from dbg_broker.home.private_files import open_home
from dbg_broker.home.rendezvous import lock, read_rendezvous, remove_rendezvous
from dbg_broker.home.tokens import Bearer, Tokens
from dbg_broker.journal.command import OnEvent
from dbg_broker.journal.journal import Journal
from dbg_broker.net.handshake_slots import MANY, Capacity
from dbg_broker.net.loop import GarbageCollection, run_measured
from dbg_broker.net.metrics import Meters
from dbg_broker.net.peer import Owner, Peer
from dbg_broker.net.server import Server
from dbg_broker.serve.credentials import Credentials
from dbg_broker.serve.listening import (
    address_of,
    announce,
    host_for_others,
    inherited,
    listen_for_peers,
    listen_for_stock,
)
from dbg_broker.serve.service import ServiceManager, start_log, status_line
from dbg_broker.settings import ClusterSettings, ServeSettings
from dbg_broker.timers import Timers
from dbg_broker.welcome import Welcomes
from dbg_command.audit import AuditEvent
from dbg_dial.dial import is_served
from dbg_dial.endpoint import Rendezvous, wrong_host_reason
from dbg_dial.home import kernel_name
from dbg_wire.errors import HOME_IS_SERVED, BadSecretFile, DbgError, NeedsExtra, printable
from dbg_wire.records.ranks import LIVE_STATES, RankState

if TYPE_CHECKING:
    from dbg_broker.cluster.cluster import Cluster
    from dbg_broker.cluster.nats import Servers

PROBE_SECONDS = 2.0
"""Timeout for reaching the broker that broker.json names, in seconds: a broker on this cluster takes milliseconds."""

logger = logging.getLogger("dbg_broker")


class IdleShutdown:
    """Idle shutdown: calls ``leave`` when no connection has needed the broker for ``seconds``; None means never."""

    def __init__(
        self, now: float, is_used: Callable[[], bool], leave: Callable[[], None], seconds: float | None
    ) -> None:
        self._since, self._is_used, self._leave, self._seconds = now, is_used, leave, seconds

    def used(self, now: float) -> None:
        """Restart the idle time, because there is a new connection."""
        self._since = now

    def sweep(self, now: float) -> None:
        """Call ``leave`` if the idle time is over."""
        if self._is_used():
            self._since = now
        elif self._seconds is not None and now - self._since >= self._seconds:
            self._leave()


class AlreadyServing(DbgError):
    """Raised if another broker already serves this home."""

    exit_status = HOME_IS_SERVED

    def __init__(self, home: str, first: Rendezvous | None) -> None:
        super().__init__(home, first)
        self.home = home
        self.first = first

    def __str__(self) -> str:
        shown = printable(self.home)
        if self.first is None:
            return f"another broker is starting in the home {shown}; stop it, or give --home another directory"
        who = f"{printable(self.first.url)} (host {printable(self.first.host)}, pid {self.first.pid})"
        return f"the home {shown} is served by {who}; use that broker, stop it, or give --home another directory"


def take_home(home: Path) -> FileIO:
    """Return the home's lock. Raise AlreadyServing if a broker holds it or answers at the address in broker.json."""
    held = lock(home)
    try:
        first = read_rendezvous(home)
    except BadSecretFile:
        if held is None:
            raise AlreadyServing(str(home), None) from None
        # The file is invalid and is about to be replaced.
        return held
    if held is None:
        raise AlreadyServing(str(home), first)
    if first is not None and _serves_elsewhere(first):
        held.close()
        raise AlreadyServing(str(home), first)
    return held


def _serves_elsewhere(first: Rendezvous) -> bool:
    reason = wrong_host_reason(first.endpoint, first.host, socket.gethostname())
    if reason is not None:
        logger.warning("broker.json named a broker on the loopback address of %s; replacing it", printable(first.host))
        return False
    return asyncio.run(is_served(first.endpoint, PROBE_SECONDS))


def serve(settings: ServeSettings, print_line: Callable[[str], None], columns: int | None = None) -> int:
    """Serve until SIGTERM, SIGINT or SIGHUP, and return the exit status. Raise DbgError.

    ``print_line`` prints a line; ``columns`` is the width of the terminal that shows it, or None without a terminal.
    """
    log = start_log(settings.verbosity, as_json=settings.logs_json)
    home = open_home(settings.home)
    with take_home(home), contextlib.ExitStack() as ending:
        servers = None if settings.cluster is None else _find_cluster(settings.cluster, home)
        # The home's tokens are now up to date: other brokers may have issued or revoked some.
        credentials = Credentials(home, settings.certificate, log)
        _raise_descriptor_limit()
        kept = inherited(os.environ, os.getpid())
        if kept is not None:
            settings = replace(settings, listen=address_of(kept))
        listener = ending.enter_context(kept or listen_for_peers(settings.listen))
        stock = None if settings.classic is None else listen_for_stock(settings.classic)
        if stock is not None:
            ending.enter_context(stock)
        credentials.serve_at(host_for_others(settings.listen), listener.getsockname()[1])
        meters = Meters()
        setup = _Setup(home, credentials, listener, stock, settings, servers)
        ready = partial(announce, settings, credentials.endpoint, stock, print_line, columns)
        run_measured(_run(setup, ready, meters), meters.key_waits)
    return 0


def _find_cluster(settings: ClusterSettings, home: Path) -> Servers:
    """Return the servers of NATS, after checking that this broker can join the others. Raise DbgError."""
    try:
        from dbg_broker.serve import joining
    except ImportError:
        raise NeedsExtra("--cluster", "nats-py", "cluster") from None
    return joining.find_cluster(settings, home)


@dataclass(frozen=True, slots=True)
class _Setup:
    """Everything that one broker needs to serve."""

    home: Path
    credentials: Credentials
    listener: socket.socket
    stock: socket.socket | None
    """Socket for stock debuggers, or None without ``--classic``."""
    settings: ServeSettings
    servers: Servers | None
    """Servers of NATS that connect this broker with other brokers, or None for a single broker."""


async def _run(setup: _Setup, announce: Callable[[], None], meters: Meters) -> None:
    home, credentials, settings = setup.home, setup.credentials, setup.settings
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_loop_error)
    stopping = _stopped_by_signals(loop)
    welcomes = Welcomes(loop.time, host=socket.gethostname(), pid=os.getpid(), max_lease=settings.max_lease)
    broker = _new_broker(loop, setup, welcomes, meters)
    leaving = IdleShutdown(loop.time(), lambda: broker.admission.is_used, stopping.set, settings.idle_seconds)

    def sweep(now: float) -> None:
        broker.sweep(now)
        leaving.sweep(now)

    def opened(peer: Peer, bearer: Bearer) -> Owner:
        # `dbg-attach run` may have opened this connection to check whether the broker answers. Its terminal connects
        # soon afterwards.
        leaving.used(loop.time())
        return broker.admission.opened(peer, bearer)

    # Parts are closed in reverse order, at the end and after an error.
    async with contextlib.AsyncExitStack() as ending:
        _open_journal(broker.journal, setup, meters, ending)
        cluster = None if setup.servers is None else await _join(broker, welcomes, setup, setup.servers, ending)
        _note_life(broker.journal, setup, ending)
        server = Server(
            setup.listener,
            credentials.shown.context,
            timers=broker.timers,
            turns=broker.turns,
            meters=meters,
            capacity=broker.capacity,
            admit=broker.admission.admit,
            opened=opened,
            sweep=sweep,
            allowed=settings.allowed,
        )
        server.start()
        ending.push_async_callback(server.stop)
        use, show = _changes(cluster, credentials, broker.admission, server)
        if cluster is not None:
            ending.callback(cluster.leave)
        if setup.stock is not None:
            port = StockPort(broker.timers, broker.ranks, broker.from_ranks)
            await port.listen(setup.stock)
            ending.callback(port.stop)
        credentials.write()
        ending.callback(_leave_home, home, cluster)
        credentials.watch(loop.call_soon_threadsafe, use, show)
        ending.callback(credentials.close)
        manager = ServiceManager(os.environ, os.getpid(), loop.call_later)
        ending.callback(manager.stopping)
        announce()
        manager.ready(partial(_status, broker.admission))
        await stopping.wait()


async def _join(
    broker: Broker, welcomes: Welcomes, setup: _Setup, servers: Servers, ending: contextlib.AsyncExitStack
) -> Cluster:
    """Join the other brokers, and return this broker's part in the cluster. Raise DbgError."""
    from dbg_broker.serve.joining import new_cluster

    cluster = new_cluster(broker, welcomes, servers, setup.credentials, setup.home)
    ending.push_async_callback(cluster.end)
    await cluster.start()
    return cluster


def _changes(
    cluster: Cluster | None, credentials: Credentials, admission: Admission, server: Server
) -> tuple[Callable[[Tokens], None], Callable[[ssl.SSLContext], None]]:
    """Return the callbacks for new tokens and for a new certificate; they also notify the other brokers."""
    if cluster is None:
        return admission.use, server.show

    def show(context: ssl.SSLContext) -> None:
        server.show(context)
        cluster.shows(credentials.shown.fingerprint)

    admission.use(cluster.tokens.tokens)
    cluster.tokens.use = admission.use
    return cluster.tokens.changed, show


def _leave_home(home: Path, cluster: Cluster | None) -> None:
    """Remove the files with this broker's address, unless the cluster has other brokers.

    In a cluster the files also have the addresses of the other brokers, so ranks and terminals still need them.
    """
    if cluster is None or not len(cluster.members):
        remove_rendezvous(home, pid=os.getpid(), host=socket.gethostname())


def _stopped_by_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    """Return an event that is set by a signal to terminate."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Under nohup SIGHUP is ignored, and must remain ignored.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stopping.set)
    return stopping


def _new_broker(loop: asyncio.AbstractEventLoop, setup: _Setup, welcomes: Welcomes, meters: Meters) -> Broker:
    timers = Timers(loop.time, loop.call_later)
    broker = Broker(
        timers,
        setup.credentials.tokens,
        welcomes,
        kernel=kernel_name(),
        meters=meters,
        capacity=Capacity(_descriptors()),
    )
    GarbageCollection(lambda: broker.relay.seats.counts()[1] > 0, timers).start()
    return broker


def _open_journal(journal: Journal, setup: _Setup, meters: Meters, ending: contextlib.AsyncExitStack) -> None:
    """Open the audit log, and start the reports of events."""
    command = setup.settings.on_event
    on_event = None if command is None else OnEvent(command, os.environ)
    journal.open(setup.home, audits_input=setup.settings.audits_input, on_event=on_event)
    ending.callback(journal.close)
    meters.audit_lost = lambda: journal.lost


def _note_life(journal: Journal, setup: _Setup, ending: contextlib.AsyncExitStack) -> None:
    """Record the broker's start and end in the audit log."""
    journal.note_own(AuditEvent.START, f"{setup.credentials.endpoint.url}, pid {os.getpid()}")
    ending.callback(journal.note_own, AuditEvent.END, f"pid {os.getpid()}")


def _status(admission: Admission) -> str:
    gauges = admission.gauges()
    live = sum(gauges.ranks[state] for state in LIVE_STATES)
    return status_line(live, gauges.ranks[RankState.STOPPED], gauges.terminals)


def _raise_descriptor_limit() -> None:
    """Raise the limit of file descriptors to the maximum of the host, because each rank needs one."""
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
