"""The asynchronous part of the link: its event loop, connecting, and detection of a silent broker.

Only the link's thread and the guard import this module, because asyncio is heavy.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from selectors import SelectorKey
from typing import Any

from dbg_agent.link.fork_safety import ForkSafety, Lookups
from dbg_agent.process.log import Logger, write_stderr
from dbg_dial.dial import AddressInfos, BrokerWebSocket, dial_broker, first_to_answer
from dbg_dial.endpoint import Route
from dbg_dial.tcp import OwnSocket
from dbg_wire.errors import BrokerUnreachable, ConnectionClosedEarly, DbgError, error_line
from dbg_wire.limits import PROBE_IDLE_SECONDS, SILENT_SECONDS

CONNECT_SECONDS = 2.0
"""Maximum time in seconds until the peer's kernel accepts a connection. It is short, because a new attempt sends a
packet at once, while the local kernel repeats a lost packet at growing intervals."""

OPEN_SECONDS = 30.0
"""Maximum time in seconds for TLS and the upgrade, for all brokers together. A broker needs that long if thousands of
ranks connect at once. If a rank gives up earlier, the broker's work for it is wasted. Each broker gets an equal share,
so that a suspended broker can't use up the time of the others."""

LOOKUP_SECONDS = 10.0
"""Maximum wait in seconds for a name look-up. A longer look-up continues, and the next attempt uses it."""

PING_SECONDS = PROBE_IDLE_SECONDS + 5.0
"""Time in seconds without a byte from the broker after which an idle link is pinged. It is shorter than the idle
timeouts of common firewalls and tunnels. A live broker sends a probe earlier, and the link then needs no ping."""

PING_ATTENDED_SECONDS = 2.0
"""Interval between pings in seconds while a user works with the rank; the user should soon notice a silent tunnel."""

FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS = 0.1, 2.0
"""Bounds of the random pause before the next attempt, in seconds. All ranks dial a restarted broker within the upper
bound. It is high enough that 2,000 ranks do not dial faster than the broker can complete handshakes."""

LAST_REFUSED_SECONDS = 8.0
"""Upper bound of the random pause, in seconds, if a broker refuses the rank, or hangs up because too many ranks
connect. This bound is higher, because each attempt costs the broker time."""

logger = Logger("dbg_agent.link")


async def dial(
    reach: Route, path: str, lookups: Lookups, answered: Callable[[], None] | None = None, *, last: str = ""
) -> BrokerWebSocket:
    """Return an open connection; raise BrokerUnreachable, Refused or BadEndpoint with the reason.

    ``answered`` is called as soon as the peer's kernel has accepted the connection, long before it is open. The broker
    at the URL ``last`` is tried after all others. If a broker hangs up, no other broker is tried in this attempt: too
    many ranks are connecting, and they connect to all brokers.
    """
    routes = reach.routes(last)
    seconds = OPEN_SECONDS / len(routes)

    async def dial_one(route: Route, _left: int) -> BrokerWebSocket:
        async def ask(find: Callable[[], AddressInfos]) -> AddressInfos:
            return await lookups.ask(route.endpoint.host, find, LOOKUP_SECONDS)

        logger.debug("dialling %s", route.endpoint.url)
        return await dial_broker(route, path, ask, seconds, connect_seconds=CONNECT_SECONDS, answered=answered)

    return await first_to_answer(routes, dial_one, final=ConnectionClosedEarly)


async def end_when_silent(connection: BrokerWebSocket, heard: asyncio.Event, is_attended: Callable[[], bool]) -> None:
    """Abort a connection when the broker has not answered a ping for SILENT_SECONDS, and return.

    ``heard`` is set by any data from the broker.
    """
    while True:
        heard.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(PING_ATTENDED_SECONDS if is_attended() else PING_SECONDS):
                await heard.wait()
            continue
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                await (await connection.ping())
        except TimeoutError:
            logger.info("%s is silent", connection.broker_url)
            connection.transport.abort()
            return


class Dialler:
    """The connection attempts of a rank; each attempt looks up the broker again by ``find``."""

    def __init__(
        self, find: Callable[[], Awaitable[Route]], names: Lookups, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._find = find
        self._clock = clock
        self._names = names
        self._attempt = 0
        self._last: Route | None = None
        """The broker of the most recent connection."""
        self.dialled = ""
        """The address of the broker that was dialled most recently."""
        self.avoided = ""
        """The address of the broker that most recently hung up on this rank or fell silent. Other brokers may be less
        busy."""
        self.unanswered_since: float | None = None
        """The time since which no broker's kernel has accepted a connection. None before the first attempt, and after a
        kernel has accepted a connection."""
        self.has_been_answered = False
        """Whether a broker's kernel accepted the connection in the attempt that finished most recently."""

    def pause(self, error: DbgError | None) -> float:
        """Return the seconds to wait before the next attempt.

        ``error`` is the error of the preceding attempt, or None if it succeeded.
        """
        self._attempt = 0 if error is None else min(self._attempt + 1, 30)
        is_away = error is None or (
            isinstance(error, BrokerUnreachable) and not isinstance(error, ConnectionClosedEarly)
        )
        last = LAST_BACKOFF_SECONDS if is_away else LAST_REFUSED_SECONDS
        return random.uniform(0, min(last, FIRST_BACKOFF_SECONDS * 2**self._attempt))  # noqa: S311 - no secret

    async def dial(self) -> BrokerWebSocket:
        """Return an open connection to the broker's present address; raise a DbgError with the reason if that fails."""
        if self.unanswered_since is None:
            self.unanswered_since = self._clock()
        try:
            connection = await self._dial_found()
        except DbgError as error:
            if isinstance(error, ConnectionClosedEarly):
                self.avoided = error.url
            if self.unanswered_since is not None:
                self.has_been_answered = False
            raise
        except Exception as error:
            # A fault here or in a library must not end the link's thread: without it no stopped rank can be resumed.
            raise BrokerUnreachable("its address", error_line(error)) from None
        self.avoided = ""
        return connection

    async def _dial_found(self) -> BrokerWebSocket:
        try:
            reach = await self._find()
        except DbgError:
            # Even if the home directory hangs or is gone, a stopped rank must reach the broker that it knows.
            if self._last is None:
                raise
            with suppress(DbgError):
                return await self._dial_at(self._last)
            raise
        return await self._dial_at(reach)

    async def _dial_at(self, reach: Route) -> BrokerWebSocket:
        self.dialled = reach.endpoint.url
        connection = await dial(reach, "/agent", self._names, self._answered, last=self.avoided)
        self._last = reach
        return connection

    def _answered(self) -> None:
        self.unanswered_since = None
        self.has_been_answered = True


class LoopLost(Exception):
    """Raised when the program has closed the sockets that other threads use to wake the loop."""


class LinkLoop(asyncio.SelectorEventLoop):
    """An event loop that does no damage if the program closes the loop's descriptors.

    It accesses no descriptor that the program has reused, and raises LoopLost if its own descriptors are closed. While
    it waits for events, its thread is at rest: forks need not wait for it.
    """

    _ssock: OwnSocket
    _csock: OwnSocket

    def __init__(self, fork_safety: ForkSafety) -> None:
        self._is_lost = False
        self._watched = ForkSafeSelector(fork_safety, self._check)
        super().__init__(self._watched)
        # PYTHONDEVMODE switches asyncio's debug mode on, which would print warnings to the job's stderr on a busy host.
        self.set_debug(False)
        # The default exception handler logs, so it may wait for a lock that a stopped thread of the program holds.
        self.set_exception_handler(_complain)

    def end(self) -> None:
        """End all tasks and close everything that the loop has opened; the loop must not be running."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True) if tasks else asyncio.sleep(0))
        # An aborted TLS connection closes its socket after a few rounds of the loop; Python warns about a socket left
        # open.
        for _ in range(3):
            self.run_until_complete(asyncio.sleep(0))
        self.close()

    def _make_self_pipe(self) -> None:
        # asyncio has no public way to replace the two sockets that call_soon_threadsafe() uses to wake the loop.
        super()._make_self_pipe()  # type: ignore[misc]
        self._ssock, self._csock = (OwnSocket(fileno=end.detach()) for end in (self._ssock, self._csock))

    def _check(self) -> None:
        if not self._is_lost and not (self._ssock.is_open() and self._csock.is_open()):
            # `end` runs a few more rounds, which need no wake-up by other threads, so the check must not raise again.
            self._is_lost = True
            self._watched.unregister(self._ssock.fileno())
            raise LoopLost("the program has closed descriptors of dbg-agent")


def make_loop(fork_safety: ForkSafety) -> LinkLoop:
    """Return a new loop; raise OSError if no descriptors are free."""
    # Without free descriptors asyncio can't build a loop either, and would print a warning about the half-built loop to
    # stderr.
    for end in socket.socketpair():
        end.close()
    return LinkLoop(fork_safety)


class ForkSafeSelector(selectors.PollSelector):
    """A selector whose thread is at rest while it waits; it calls ``check`` before it returns.

    It uses poll, which has no descriptor of its own. The program could close and reuse the descriptor of epoll; when
    the agent then closed it, a file of the program would be closed. For the link's three descriptors poll is as fast.
    """

    def __init__(self, rest: ForkSafety, check: Callable[[], None]) -> None:
        super().__init__()
        self._rest = rest
        self._check = check

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return the ready descriptors, after at most ``timeout`` seconds; raise as ``check`` does."""
        self._rest.release_while_waiting()
        try:
            ready = super().select(timeout)
        finally:
            self._rest.reacquire()
        self._check()
        return ready


def _complain(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    why = error_line(error) if error is not None else "None"
    write_stderr(f"{context.get('message', 'a fault')} ({why})")
