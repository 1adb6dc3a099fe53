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
from dbg_broker.net.tls import SecureTransport
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
        self._starting: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to accept and to sweep."""
        self.listener.setblocking(False)
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
        except asyncio.TimeoutError:
            logger.info("some connections did not close in time")
            self._owner.handlers.abort_all()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(ABORT_SECONDS, empty.wait())
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)

    def _accept(self) -> None:
        ends = time.thread_time() + ACCEPT_SECONDS
        while self._accept_one() and time.thread_time() < ends:
            pass

    def _accept_one(self) -> bool:
        """Accept a connection; return whether there may be another one now."""
        if not self._owner.can_accept:
            # The kernel keeps new connections until an accepted one has sent its first message.
            self._accept_later(FULL_SECONDS)
            return False
        try:
            accepted, address = self.listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            return self._could_not_accept(error)
        if self._allowed.admits(address, accepted.getsockname()):
            self._let_wait(accepted, tcp.peer_name(address))
        else:
            accepted.close()
            self._owner.turned_away(tcp.peer_name(address))
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

    def _let_wait(self, accepted: socket.socket, peer: str) -> None:
        """Let a connection wait for its first byte, which costs much less than a transport."""
        accepted.setblocking(False)
        self._last_number += 1
        secure = SecureTransport(self._context) if self._context is not None else None
        connection = PeerConnection(self._last_number, peer, self._owner, secure)
        connection.stranger.cancel_start = partial(self._give_up, connection, accepted, "it was given up")
        self._loop.add_reader(accepted, self._has_first_byte, connection, accepted)
        self._owner.accepted(connection)

    def _has_first_byte(self, connection: PeerConnection, accepted: socket.socket) -> None:
        """Let a connection wait for its turn, unless it has ended: its place is free at once then."""
        try:
            is_there = bool(accepted.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            is_there = False
        if is_there:
            self._loop.remove_reader(accepted)
            self._owner.begins(connection, partial(self._begin, connection, accepted))
        else:
            self._give_up(connection, accepted, "it ended before a request")

    def _begin(self, connection: PeerConnection, accepted: socket.socket) -> None:
        """Give a connection a transport for what came, unless it was given up while it waited for its turn."""
        if accepted.fileno() < 0:
            return
        task = self._loop.create_task(self._hand_over(connection, accepted))
        connection.stranger.cancel_start = task.cancel
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _give_up(self, connection: PeerConnection, accepted: socket.socket, reason: str) -> None:
        """End a connection that has no transport."""
        self._loop.remove_reader(accepted)
        connection.stranger.cancel_start = None
        accepted.close()
        self._owner.failed(connection, reason)
        self._owner.handlers.lost(connection)

    def _accept_later(self, seconds: float) -> None:
        self._loop.remove_reader(self.listener)
        self._loop.call_later(seconds, self._accept_again)

    def _accept_again(self) -> None:
        if self.listener.fileno() >= 0:
            self._loop.add_reader(self.listener, self._accept)

    async def _hand_over(self, connection: PeerConnection, accepted: socket.socket) -> None:
        """Give a socket its transport."""
        reason = "it ended at once"
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError as error:
            reason = f"it failed at once ({error.strerror})"
        except asyncio.CancelledError:
            reason = "it was given up"
        except Exception:
            logger.exception("the connection from %s is closed after an error of the broker", connection.peer)
        finally:
            connection.stranger.cancel_start = None
            if not connection.stranger.was_made:
                accepted.close()
                self._owner.failed(connection, reason)
                self._owner.handlers.lost(connection)

    def _sweep(self, due: float) -> None:
        try:
            self._owner.sweep(self._loop.time() - due)
        except Exception:
            logger.exception("an error of the broker during its sweep")
        due = self._loop.time() + self._sweep_seconds
        self._sweeping = self._loop.call_at(due, self._sweep, due)
