"""The server that accepts peers: their sockets, TLS, the sweep by the clock, and the shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import sys
from asyncio import sslproto
from collections.abc import Callable
from typing import Any, Protocol

from dbg_broker.allowed import EVERYBODY, Allowed
from dbg_broker.net import tcp
from dbg_broker.net.connection import PeerConnection
from dbg_broker.net.owner import Owner
from dbg_dial.deadline import within
from dbg_wire import limits

logger = logging.getLogger("dbg_broker")

ACCEPTED_AT_ONCE = 25
"""Connections accepted in one round of the event loop, so that a storm of new connections leaves time to the others."""

SWEEP_SECONDS = 0.25
"""Seconds between two sweeps, by which anything due by the clock may be late."""

FULL_SECONDS = 0.02
"""Seconds without accepting while all places before the first message are taken: an honest peer is faster."""

NO_DESCRIPTORS_SECONDS = 1.0
"""Seconds without accepting when the process has no file descriptor left: some will be closed by then."""

SHUTDOWN_SECONDS = 0.5
"""Seconds given to all closing handshakes at the end. The next broker begins after them, and has its terminals back
within 2.5 s of the shutdown; a terminal that draws a flood of output may read of it later, and dials then."""

ABORT_SECONDS = 0.25
"""Seconds for the rounds of the loop in which aborted connections end."""

TLS_BUFFER_BYTES = 16 * limits.KIB
"""Bytes that asyncio is to allocate for each TLS connection in place of 256 KiB: the largest record that TLS has."""


def bound_tls_buffers() -> None:
    """Have asyncio allocate a sixteenth of the memory for each TLS connection, if its release has a setting for it."""
    if hasattr(sslproto.SSLProtocol, "max_size"):
        sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES


class ServerOwner(Owner[PeerConnection], Protocol):
    """Owner of the connections that a server accepts."""

    @property
    def can_accept(self) -> bool:
        """Tell whether one more connection may come now."""

    def turned_away(self, peer: str) -> None:
        """Take note of a peer whose address is not allowed; its connection is closed already."""

    def accepted(self, connection: PeerConnection) -> None:
        """Take a connection of which nothing has come yet."""

    def sweep(self, late: float) -> None:
        """Do what is due by the clock, ``late`` seconds after its time."""

    def close_all(self, then: Callable[[], None]) -> None:
        """Close all connections, and call ``then`` when none is left, at once if there is none."""

    def abort_all(self) -> None:
        """End at once what :meth:`close_all` has not closed."""


class Server:
    """Server that accepts connections for their owner until it is stopped."""

    def __init__(
        self,
        owner: ServerOwner,
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
        self._tls: dict[str, Any] = {}
        if context is not None:
            bound_tls_buffers()
            self._tls = {"ssl": context, "ssl_handshake_timeout": limits.HANDSHAKE_SECONDS}
            if sys.version_info >= (3, 11):
                self._tls["ssl_shutdown_timeout"] = limits.CLOSE_SECONDS
        self._last_number = 0
        self._handshakes: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to accept and to sweep."""
        self.listener.setblocking(False)
        self._loop.add_reader(self.listener, self._accept)
        self._sweep(self._loop.time())

    def show(self, context: ssl.SSLContext) -> None:
        """Show another certificate to all that come from now on."""
        self._tls["ssl"] = context

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
        self._owner.close_all(empty.set)
        try:
            await within(SHUTDOWN_SECONDS, empty.wait())
        except asyncio.TimeoutError:
            logger.info("some connections did not close in time")
            self._owner.abort_all()
            with contextlib.suppress(asyncio.TimeoutError):
                await within(ABORT_SECONDS, empty.wait())
        for task in self._handshakes:
            task.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if not self._owner.can_accept:
                # The kernel keeps new connections until an accepted one has sent its first message.
                self._loop.remove_reader(self.listener)
                self._loop.call_later(FULL_SECONDS, self._accept_again)
                return
            try:
                accepted, address = self.listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.warning("no connection can be accepted for a moment: %s", error.strerror)
                self._loop.remove_reader(self.listener)
                self._loop.call_later(NO_DESCRIPTORS_SECONDS, self._accept_again)
                return
            if not self._allowed.admits(address, accepted.getsockname()):
                accepted.close()
                self._owner.turned_away(tcp.peer_name(address))
                continue
            self._last_number += 1
            connection = PeerConnection(self._last_number, tcp.peer_name(address), self._owner, self._loop)
            task = self._loop.create_task(self._hand_over(connection, accepted))
            connection.cancel_handshake = task.cancel
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)
            self._owner.accepted(connection)

    def _accept_again(self) -> None:
        if self.listener.fileno() >= 0:
            self._loop.add_reader(self.listener, self._accept)

    async def _hand_over(self, connection: PeerConnection, accepted: socket.socket) -> None:
        """Give a socket its transport; with TLS that ends with the handshake, one way or the other."""
        reason = "it ended during the TLS handshake"
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted, **self._tls)
        except (OSError, asyncio.TimeoutError) as error:
            reason = f"no TLS ({getattr(error, 'reason', None) or type(error).__name__})"
        except asyncio.CancelledError:
            reason = "it was given up"
        except Exception:
            logger.exception("the connection from %s is closed after an error of the broker", connection.peer)
        finally:
            connection.cancel_handshake = None
            if not connection.was_made:
                accepted.close()
                self._owner.failed(connection, reason)
                self._owner.lost(connection)

    def _sweep(self, due: float) -> None:
        try:
            self._owner.sweep(self._loop.time() - due)
        except Exception:
            logger.exception("an error of the broker during its sweep")
        due = self._loop.time() + self._sweep_seconds
        self._sweeping = self._loop.call_at(due, self._sweep, due)
