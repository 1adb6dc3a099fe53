"""How a rank gets a connection, and replaces a silent one by the next; in the link's thread, one attempt at a time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from dbg_agent.link.dial import dial
from dbg_agent.link.name_servers import Lookups
from dbg_agent.link.silence import SHORTEST_LOOK_SECONDS, Silence
from dbg_agent.log import Logger
from dbg_dial.dial import BrokerWebSocket
from dbg_dial.handover import Handover
from dbg_dial.tcp import Address, seconds_since_ack
from dbg_wire.errors import BrokerUnreachable, DbgError
from dbg_wire.finding.endpoint import Reach

logger = Logger("dbg_agent.link")

FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS = 0.1, 2.0
"""Bounds of the random pause before the next attempt. A restarted broker has its ranks back within the upper bound, and
2,000 ranks come no faster than the broker can shake hands."""

LAST_REFUSED_SECONDS = 3.0
"""The upper bound if a broker refuses the rank: each attempt costs the broker a handshake."""

BESIDE_SECONDS = 0.5, 1.5
"""Bounds of the random pause between attempts beside a silent connection; each attempt itself has two seconds."""

LONGEST_BESIDE_SECONDS = 20.0
"""The longest pause beside a silent connection. Pauses grow while a kernel takes connections and no broker answers: a
suspended broker finds all these connections when it goes on."""


class Dialler:
    """The attempts of a rank to connect; each one looks for the broker anew."""

    def __init__(self, find: Callable[[], Awaitable[Reach]], is_attended: Callable[[], bool], names: Lookups) -> None:
        self._find = find
        self._is_attended = is_attended
        self._names = names
        self._attempt = 0
        self._handover = Handover()
        self._last: tuple[Reach, Address] | None = None
        """How the last connection was reached: after chroot() the program's files name no broker, and no address."""
        self.unanswered_since: float | None = None
        """The time since which no kernel takes a connection; None once a kernel does, and before the first attempt."""
        self.has_been_answered = False
        """Whether a kernel took the last connection that was taken or refused."""

    def pause(self, error: DbgError | None) -> float:
        """Return the seconds to wait before the next attempt, after one that ended with ``error``, or None if good."""
        self._attempt = 0 if error is None else min(self._attempt + 1, 30)
        last = LAST_BACKOFF_SECONDS if error is None or isinstance(error, BrokerUnreachable) else LAST_REFUSED_SECONDS
        longest = self._handover.bound(min(last, FIRST_BACKOFF_SECONDS * 2**self._attempt), time.monotonic())
        return random.uniform(0, longest)  # noqa: S311 - no secret

    def ended(self, connection: BrokerWebSocket) -> None:
        """Note that a connection has ended, while it is known whether a terminal looks.

        If the broker has ended, the next one is expected soon, and a rank at which a terminal looks dials often. The
        others don't: thousands of them would read the home's files several times a second.
        """
        if self._is_attended():
            self._handover.ended(connection.protocol.close_code, time.monotonic())

    async def dial(self) -> BrokerWebSocket:
        """Return an open connection to where the broker is now; raise a DbgError that says why there is none."""
        if self.unanswered_since is None:
            self.unanswered_since = time.monotonic()
        try:
            return await self._dial_found()
        except DbgError:
            if self.unanswered_since is not None:
                self.has_been_answered = False
            raise
        except Exception as error:
            # A fault here or in a library must not end the link's thread: without it no stopped rank can go on.
            raise BrokerUnreachable("its address", f"{type(error).__name__}: {error}") from None

    async def _dial_found(self) -> BrokerWebSocket:
        try:
            reach = await self._find()
        except DbgError:
            if self._last is None:
                raise
            with suppress(DbgError):
                return await self._dial_at(self._last[0])
            raise
        return await self._dial_at(reach)

    async def _dial_at(self, reach: Reach) -> BrokerWebSocket:
        logger.debug("dials %s", reach.endpoint.url)
        last = self._last
        known = (last[1],) if last is not None and last[0].endpoint.url == reach.endpoint.url else ()
        connection = await dial(reach, "/agent", self._names, self._answered, known)
        address = address_of(connection)
        if address is not None:
            self._last = reach, address
        return connection

    async def successor(self, connection: BrokerWebSocket) -> BrokerWebSocket:
        """Return another connection that was opened while this one was silent.

        An attempt ends as soon as a byte comes over the silent connection. So this waits for ever if the connection
        recovers each time.
        """
        watch = _Watch(connection, self._is_attended)
        stuck = 0
        try:
            while True:
                await watch.until_silent()
                found = await self._dial_while_silent(watch)
                if found is not None:
                    return found
                stuck = stuck + 1 if self.unanswered_since is None else 0
                pause = random.uniform(*BESIDE_SECONDS) * 2 ** min(stuck, 10)  # noqa: S311 - no secret
                await asyncio.sleep(min(LONGEST_BESIDE_SECONDS, pause))
        finally:
            watch.end()

    async def _dial_while_silent(self, watch: _Watch) -> BrokerWebSocket | None:
        dialling = asyncio.ensure_future(self.dial())
        try:
            while not dialling.done() and watch.is_silent():
                await asyncio.wait({dialling}, timeout=SHORTEST_LOOK_SECONDS)
            if dialling.done() and dialling.exception() is None:
                return dialling.result()
            return None
        except asyncio.CancelledError:
            await drop(dialling)
            raise
        finally:
            if not dialling.done():
                await drop(dialling)

    def _answered(self) -> None:
        self.unanswered_since = None
        self.has_been_answered = True


class _Watch:
    """The watch over one connection: it notices silence, and sends pings."""

    def __init__(self, connection: BrokerWebSocket, is_attended: Callable[[], bool]) -> None:
        self._connection = connection
        self._is_attended = is_attended
        self._loop = asyncio.get_running_loop()
        self._silence = Silence(self._loop.time())
        self._ping: asyncio.Future[Any] | None = None

    async def until_silent(self) -> None:
        """Wait until the peer is silent."""
        while not self.is_silent():
            now, attended = self._loop.time(), self._is_attended()
            since_ack = seconds_since_ack(self._connection.transport)
            await asyncio.sleep(self._silence.next_look(now, since_ack, attended=attended))

    def is_silent(self) -> bool:
        """Tell whether the peer is silent now, and send a ping if one is due."""
        now = self._loop.time()
        self._silence.heard(self._connection.heard_at)
        silent = self._silence.is_silent(now, seconds_since_ack(self._connection.transport))
        if self._silence.wants_ping(now, attended=self._is_attended()):
            self._send_ping()
        return silent

    def end(self) -> None:
        """End a ping that is under way."""
        if self._ping is not None:
            self._ping.cancel()

    def _send_ping(self) -> None:
        self.end()
        # The watch must not wait for a ping: over a dead connection that may block, and the watch could not look.
        self._ping = asyncio.ensure_future(self._connection.ping())
        self._ping.add_done_callback(_ignore)


def address_of(connection: BrokerWebSocket) -> Address | None:
    """Return the address at which the peer of a connection was reached; None if the connection is lost by now."""
    sock, peer = (connection.transport.get_extra_info(name) for name in ("socket", "peername"))
    return None if sock is None or peer is None else (sock.family, peer)


async def drop(dialling: asyncio.Future[BrokerWebSocket]) -> None:
    """Give an attempt up, and close its connection if it has opened one by now."""
    dialling.cancel()
    (outcome,) = await asyncio.gather(dialling, return_exceptions=True)
    if not isinstance(outcome, BaseException):
        outcome.transport.abort()


def _ignore(done: asyncio.Future[Any]) -> None:
    """Take the error of a ping, so that asyncio doesn't log it. The task that serves the connection sees it, too."""
    if not done.cancelled():
        done.exception()
