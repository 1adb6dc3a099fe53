"""The server that accepts peers: their sockets, TLS, the sweep by the clock, and the shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from functools import partial

from dbg_broker.net import tcp
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.connections import Connections
from dbg_broker.net.spare import NO_DESCRIPTORS
from dbg_broker.net.transport import SocketTransport
from dbg_broker.settings import EVERYBODY, Allowed
from dbg_dial.waiting import within

logger = logging.getLogger("dbg_broker")

ACCEPT_SECONDS = 0.002
"""Processor time for new connections in one round of the event loop: some sixty, of which each only waits then. So a
storm of them leaves time to the others, and the kernel's queue of them moves on."""

SWEEP_SECONDS = 0.25
"""Seconds between two sweeps, by which anything due by the clock may be late."""

FULL_SECONDS = 0.02
"""Seconds without accepting while all places before the first message are taken: an honest peer is faster."""

NO_ACCEPT_SECONDS = 1.0
"""Seconds without accepting after an error that has nothing to do with a lack of descriptors."""

SHUTDOWN_SECONDS = 0.5
"""Seconds given to all closing handshakes at the end. The next broker begins after them, and has its terminals back
within 2.5 s of the shutdown; a terminal that draws a flood of output may read of it later, and dials then."""

ABORT_SECONDS = 0.25
"""Seconds for the rounds of the loop in which aborted connections end."""


class Server:
    """Server that accepts connections for their owner until it is stopped."""

    def __init__(
        self,
        owner: Connections,
        listener: socket.socket,
        context: ssl.SSLContext | None,
        *,
        sweep_seconds: float = SWEEP_SECONDS,
        allowed: Allowed = EVERYBODY,
    ) -> None:
        self._owner = owner
        self._allowed = allowed
        self.listener = listener
        self._sweep_seconds = sweep_seconds
        self._loop = asyncio.get_running_loop()
        self._context = context
        self._last_number = 0
        self._sweeping: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to accept and to sweep."""
        self.listener.setblocking(False)
        tcp.prepare(self.listener)
        self._loop.add_reader(self.listener, self._accept)
        self._sweep(self._loop.time())

    def show(self, context: ssl.SSLContext) -> None:
        """Show another certificate to all that come from now on."""
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
        empty = asyncio.Event()
        self._owner.handlers.close_all(empty.set)
        try:
            await within(SHUTDOWN_SECONDS, empty.wait())
        except TimeoutError:
            logger.info("some connections did not close in time")
            self._owner.handlers.abort_all()
            with contextlib.suppress(TimeoutError):
                await within(ABORT_SECONDS, empty.wait())
        self._owner.handshakes.close()

    def _accept(self) -> None:
        ends = time.thread_time() + ACCEPT_SECONDS
        while self._accept_one() and time.thread_time() < ends:
            pass

    def _accept_one(self) -> bool:
        """Accept a connection; return whether there may be another one now."""
        if not self._owner.can_accept(partial(tcp.unaccepted, self.listener)):
            # The kernel keeps new connections until an accepted one has sent its first message.
            self._accept_later(FULL_SECONDS)
            return False
        try:
            accepted, address = self.listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            return self._could_not_accept(error)
        peer = tcp.peer_name(address)
        if not self._allowed.admits(address, accepted.getsockname):
            accepted.close()
            self._owner.turned_away(peer)
        elif self._owner.turns_back(peer):
            accepted.close()
        else:
            self._welcome(accepted, peer)
        return True

    def _could_not_accept(self, error: OSError) -> bool:
        """Try again at once if there is a descriptor for that, else later; return whether it is at once."""
        if error.errno not in NO_DESCRIPTORS:
            logger.warning("no connection can be accepted for a moment: %s", error.strerror)
            self._accept_later(NO_ACCEPT_SECONDS)
            return False
        if self._owner.make_room(error):
            return True
        self._accept_later(FULL_SECONDS)
        return False

    def _welcome(self, accepted: socket.socket, peer: str) -> None:
        """Make a connection, which waits for its first byte."""
        accepted.setblocking(False)
        self._last_number += 1
        connection = PeerConnection(self._last_number, peer, self._owner)
        connection.connection_made(SocketTransport(accepted, connection, self._context))
        self._owner.accepted(connection)

    def _accept_later(self, seconds: float) -> None:
        self._loop.remove_reader(self.listener)
        self._loop.call_later(seconds, self._accept_again)

    def _accept_again(self) -> None:
        if self.listener.fileno() >= 0:
            self._loop.add_reader(self.listener, self._accept)

    def _sweep(self, due: float) -> None:
        try:
            self._owner.sweep(self._loop.time() - due)
        except Exception:
            logger.exception("an error of the broker during its sweep")
        due = self._loop.time() + self._sweep_seconds
        self._sweeping = self._loop.call_at(due, self._sweep, due)
