"""Server that accepts peers: their handshakes, the periodic sweep, and the shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from asyncio import sslproto
from collections.abc import Callable
from typing import NamedTuple

from dbg_broker.home.tokens import Bearer
from dbg_broker.net import tcp
from dbg_broker.net.handshake_slots import HANDSHAKE_SECONDS, SILENT_SECONDS, Capacity, Line, Slots
from dbg_broker.net.http import HttpAnswer, Upgrade
from dbg_broker.net.metrics import Meters
from dbg_broker.net.outbox import Turns
from dbg_broker.net.peer import Owner, Peer
from dbg_broker.net.websocket import CloseCode
from dbg_broker.settings import EVERYBODY, Allowed
from dbg_broker.timers import Timers
from dbg_dial.tcp import within
from dbg_wire import limits

logger = logging.getLogger("dbg_broker")

TLS_BUFFER_BYTES = 16 * limits.KIB
"""Size of the read buffer that asyncio allocates for a TLS connection, in bytes: one TLS record."""

ACCEPTS_AT_ONCE = 64
"""Maximum number of connections accepted in one turn of the event loop. This takes about a millisecond, and keys wait
for it.
"""

HANDSHAKES_AT_ONCE = 16
"""Maximum number of handshakes started in one turn of the event loop: each start delays keys by up to 1 ms."""

NO_ACCEPT_SECONDS = 1.0
"""Pause after a connection can't be accepted, for example because all descriptors are in use, in seconds."""

SWEEP_SECONDS = 0.25
"""Interval between two sweeps, in seconds. A sweep does everything that is due, so an action may be late by this
interval.
"""

SHUTDOWN_SECONDS = 0.5
"""Timeout of all closing handshakes at shutdown, in seconds. It is short, because the broker that replaces this one
starts only afterwards. With this timeout, terminals have reconnected 2.5 s after the shutdown. A terminal that is still
drawing a flood of output does not answer in time.
"""

ABORT_SECONDS = 0.25
"""Timeout for the end of aborted connections, in seconds."""


class PendingConnection(NamedTuple):
    """An accepted socket that waits until a slot for its handshake is free."""

    socket: socket.socket
    peer: str
    since: float


class Server:
    """Server that accepts connections until it is stopped.

    ``admit`` returns the bearer of a request's token if the request may become a WebSocket, or the HTTP answer
    otherwise. ``opened`` returns the receiver of the peer's messages. ``sweep`` is called at each sweep, for work
    outside of this module.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext | None,
        *,
        timers: Timers,
        turns: Turns,
        meters: Meters,
        capacity: Capacity,
        admit: Callable[[Peer, Upgrade], Bearer | HttpAnswer],
        opened: Callable[[Peer, Bearer], Owner],
        sweep: Callable[[float], None],
        allowed: Allowed = EVERYBODY,
        sweep_seconds: float = SWEEP_SECONDS,
    ) -> None:
        self.timers, self.turns, self.listener = timers, turns, listener
        self.admit = admit
        self._meters, self._opened, self._sweep_rest, self._allowed = meters, opened, sweep, allowed
        self._sweep_seconds = sweep_seconds
        self._loop = asyncio.get_running_loop()
        self._context = context
        self._last_number = 0
        self._slots = Slots(capacity.slots)
        self._line: Line[PendingConnection] = Line(capacity.line)
        self._peers: dict[int, Peer] = {}
        self._handshakes: dict[int, asyncio.Task[None]] = {}
        """TLS handshakes in progress, by connection. A shutdown cancels them, because their peers have no transport
        yet.
        """
        self._begins_soon = False
        self._sweeping: asyncio.TimerHandle | None = None
        self._is_empty = asyncio.Event()
        meters.pending = lambda: len(self._slots) + len(self._line)

    def __len__(self) -> int:
        return len(self._peers)

    def start(self) -> None:
        """Start to accept connections and to sweep."""
        sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES  # asyncio has no option for this size
        self.listener.setblocking(False)
        tcp.prepare(self.listener)
        self._loop.add_reader(self.listener, self._accept)
        self._sweep()

    def show(self, context: ssl.SSLContext) -> None:
        """Serve another certificate to new connections."""
        self._context = context

    async def stop(self) -> None:
        """Stop accepting, close all connections, and wait until they have ended or SHUTDOWN_SECONDS are over.

        A second call does nothing.
        """
        if self.listener.fileno() < 0:
            return
        self._loop.remove_reader(self.listener)
        self.listener.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        while (waiting := self._line.pop(lambda _: True)) is not None:
            waiting[1].socket.close()
        for peer in tuple(self._peers.values()):
            peer.close(CloseCode.SHUTDOWN, "the broker shuts down")
        for task in self._handshakes.values():
            task.cancel()
        await self._wait_until_empty(SHUTDOWN_SECONDS)
        if self._peers:
            logger.info("some connections did not close in time")
            for peer in tuple(self._peers.values()):
                peer.abort()
            await self._wait_until_empty(ABORT_SECONDS)

    async def _wait_until_empty(self, seconds: float) -> None:
        self._is_empty.clear()
        if self._peers:
            with contextlib.suppress(TimeoutError):
                await within(seconds, self._is_empty.wait())

    # -------------------------------------------------------------------------------------------------- new connections

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                accepted, address = self.listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                logger.warning("can't accept connections; trying again in a second: %s", error.strerror)
                self._loop.remove_reader(self.listener)
                self._loop.call_later(NO_ACCEPT_SECONDS, self._accept_again)
                break
            self._let_wait(accepted, address)
        self._begin_soon()

    def _accept_again(self) -> None:
        if self.listener.fileno() >= 0:
            self._loop.add_reader(self.listener, self._accept)

    def _let_wait(self, accepted: socket.socket, address: object) -> None:
        """Let a connection wait for a slot; if too many wait, close one of them."""
        peer = tcp.peer_name(address)
        if not self._allowed.admits(address, accepted.getsockname):
            accepted.close()
            self._meters.turned_away += 1
            logger.info("connection from %s rejected: --allow does not include its address", peer)
            return
        newcomer = PendingConnection(accepted, peer, self.timers.clock())
        closed = self._line.put(newcomer, tcp.network_of(peer))
        if closed is not None:
            closed.socket.close()
            self._meters.crowded_out += 1

    def _begin_soon(self) -> None:
        """Schedule handshakes for the next turn of the event loop."""
        if len(self._line) and not self._begins_soon:
            self._begins_soon = True
            self.timers.schedule(0, self._start)

    def _start(self) -> None:
        """Start handshakes while slots are free."""
        self._begins_soon = False
        begun = 0
        for _ in range(ACCEPTS_AT_ONCE):
            found = self._line.pop(self._slots.has_room)
            if found is None:
                return
            if self._is_worth_a_slot(found[1]):
                self._begin_one(*found)
                begun += 1
                if begun == HANDSHAKES_AT_ONCE:
                    break
        self._begin_soon()

    def _is_worth_a_slot(self, newcomer: PendingConnection) -> bool:
        """Return True if a connection has sent something, or is too new to be called silent. Otherwise close it."""
        if self.timers.clock() - newcomer.since < SILENT_SECONDS or tcp.has_bytes(newcomer.socket):
            return True
        newcomer.socket.close()
        self._meters.crowded_out += 1
        return False

    def _begin_one(self, address: str, newcomer: PendingConnection) -> None:
        self._last_number += 1
        peer = Peer(self._last_number, newcomer.peer, self)
        logger.debug("connection %d: accepted from %s", peer.number, peer.peer)
        self._slots.take(peer.number, address, self.timers.clock())
        self._peers[peer.number] = peer
        self._handshakes[peer.number] = self._loop.create_task(self._shake_hands(peer, newcomer.socket))

    async def _shake_hands(self, peer: Peer, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: peer,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else HANDSHAKE_SECONDS,
            )
        except OSError as error:
            self.failed(peer, f"TLS failed ({getattr(error, 'reason', None) or type(error).__name__})")
        finally:
            del self._handshakes[peer.number]
            if not peer.is_connected:
                self.ended(peer)

    # ----------------------------------------------------------------------------------------------- calls of its peers

    def opened(self, peer: Peer, bearer: Bearer) -> Owner:
        """Return the receiver of a new WebSocket's messages."""
        logger.debug("connection %d: authenticated as %s", peer.number, bearer.shown)
        self._meters.handshakes += 1
        self._free_slot(peer)
        return self._opened(peer, bearer)

    def _free_slot(self, peer: Peer) -> None:
        if self._slots.free(peer.number):
            self._begin_soon()

    def failed(self, peer: Peer, reason: str) -> None:
        """Count a connection that did not become a WebSocket."""
        self._meters.failures += 1
        logger.info("connection from %s closed: %s", peer.peer, reason)

    def ended(self, peer: Peer) -> None:
        """Forget a connection."""
        self._free_slot(peer)
        self._peers.pop(peer.number, None)
        if not self._peers:
            self._is_empty.set()

    # ---------------------------------------------------------------------------------------------------------- sweep

    def _sweep(self) -> None:
        try:
            now = self.timers.clock()
            for number in self._slots.overdue(self._line, now):
                self._end_slot(self._peers[number])
            self._sweep_rest(now)
        except Exception:
            logger.exception("internal error during the sweep")
        self._sweeping = self._loop.call_later(self._sweep_seconds, self._sweep)

    def _end_slot(self, peer: Peer) -> None:
        self.failed(peer, "its request took too long")
        peer.abort()
        if (task := self._handshakes.get(peer.number)) is not None:
            task.cancel()
