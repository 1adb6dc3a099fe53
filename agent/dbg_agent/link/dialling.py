"""The asynchronous part of the link: its event loop, how it gets a connection, and how it notices a silent broker.

Only the link's thread and the guard import this module, since asyncio is heavy.
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
from dbg_agent.process.log import Logger, say
from dbg_dial.dial import AddressInfos, BrokerWebSocket, dial_broker, first_to_answer
from dbg_dial.endpoint import Reach
from dbg_dial.tcp import OwnSocket
from dbg_wire.errors import BrokerUnreachable, DbgError, HungUp, error_line
from dbg_wire.limits import PROBE_IDLE_SECONDS, SILENT_SECONDS

CONNECT_SECONDS = 2.0
"""Seconds for the peer's kernel to take a connection: our kernel asks ever more rarely, a new attempt asks at once."""

OPEN_SECONDS = 30.0
"""Seconds for TLS and the upgrade, all brokers together: a broker that thousands of ranks dial at once needs them, and
what it does for one that gives up is lost. While it is suspended, it costs the others this time."""

LOOKUP_SECONDS = 10.0
"""Seconds for the look-up of a name. A longer look-up goes on, and the next attempt uses it."""

PING_SECONDS = PROBE_IDLE_SECONDS + 5.0
"""Seconds without a byte after which an idle link is pinged: below the idle time-outs of common firewalls and tunnels.
A broker that is there has sent a probe by then, which tells as much, so there is nothing to ping."""

PING_ATTENDED_SECONDS = 2.0
"""Seconds between two pings while a user sits at the rank, who should soon learn that a tunnel is silent."""

FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS = 0.1, 2.0
"""Bounds of the random pause before the next attempt. A restarted broker has its ranks back within the upper bound, and
2,000 ranks come no faster than the broker can shake hands."""

LAST_REFUSED_SECONDS = 8.0
"""The upper bound if a broker refuses the rank, or hangs up as it does if too many come: each attempt costs it time."""

logger = Logger("dbg_agent.link")


async def dial(
    reach: Reach, path: str, lookups: Lookups, answered: Callable[[], None] | None = None, *, last: str = ""
) -> BrokerWebSocket:
    """Return an open connection; raise BrokerUnreachable, or a Refused or BadEndpoint that says what is wrong.

    ``answered`` is called as soon as the peer's kernel has taken the connection, long before it is open. The broker at
    the URL ``last`` is dialled after the others. After a broker that hangs up no other one is dialled at once: where
    too many ranks come, they come to all brokers.
    """
    routes = reach.routes(last)
    seconds = OPEN_SECONDS / len(routes)

    async def dial_one(route: Reach, _left: int) -> BrokerWebSocket:
        async def ask(find: Callable[[], AddressInfos]) -> AddressInfos:
            return await lookups.ask(route.endpoint.host, find, LOOKUP_SECONDS)

        logger.debug("dials %s", route.endpoint.url)
        return await dial_broker(route, path, ask, seconds, connect_seconds=CONNECT_SECONDS, answered=answered)

    return await first_to_answer(routes, dial_one, final=HungUp)


async def end_when_silent(connection: BrokerWebSocket, heard: asyncio.Event, is_attended: Callable[[], bool]) -> None:
    """Abort a connection when the broker has not answered a ping for SILENT_SECONDS, and return.

    ``heard`` is set by whatever comes from it.
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
    """The attempts of a rank to connect; each one looks for the broker anew, by ``find``."""

    def __init__(
        self, find: Callable[[], Awaitable[Reach]], names: Lookups, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._find = find
        self._clock = clock
        self._names = names
        self._attempt = 0
        self._last: Reach | None = None
        """Where the last connection was."""
        self.dialled = ""
        """The address of the broker that was dialled last."""
        self.avoided = ""
        """The address of the broker that hung up on this rank or was silent last: others may have more time."""
        self.unanswered_since: float | None = None
        """The time since which no kernel takes a connection; None once a kernel does, and before the first attempt."""
        self.has_been_answered = False
        """Whether a kernel took the last connection that was taken or refused."""

    def pause(self, error: DbgError | None) -> float:
        """Return the seconds to wait before the next attempt, after one that ended with ``error``, or None if good."""
        self._attempt = 0 if error is None else min(self._attempt + 1, 30)
        is_away = error is None or (isinstance(error, BrokerUnreachable) and not isinstance(error, HungUp))
        last = LAST_BACKOFF_SECONDS if is_away else LAST_REFUSED_SECONDS
        return random.uniform(0, min(last, FIRST_BACKOFF_SECONDS * 2**self._attempt))  # noqa: S311 - no secret

    async def dial(self) -> BrokerWebSocket:
        """Return an open connection to where the broker is now; raise a DbgError that says why there is none."""
        if self.unanswered_since is None:
            self.unanswered_since = self._clock()
        try:
            connection = await self._dial_found()
        except DbgError as error:
            if isinstance(error, HungUp):
                self.avoided = error.url
            if self.unanswered_since is not None:
                self.has_been_answered = False
            raise
        except Exception as error:
            # A fault here or in a library must not end the link's thread: without it no stopped rank can go on.
            raise BrokerUnreachable("its address", error_line(error)) from None
        self.avoided = ""
        return connection

    async def _dial_found(self) -> BrokerWebSocket:
        try:
            reach = await self._find()
        except DbgError:
            # A home that hangs, or is gone, must not keep a stopped rank from the broker that it knows.
            if self._last is None:
                raise
            with suppress(DbgError):
                return await self._dial_at(self._last)
            raise
        return await self._dial_at(reach)

    async def _dial_at(self, reach: Reach) -> BrokerWebSocket:
        self.dialled = reach.endpoint.url
        connection = await dial(reach, "/agent", self._names, self._answered, last=self.avoided)
        self._last = reach
        return connection

    def _answered(self) -> None:
        self.unanswered_since = None
        self.has_been_answered = True


class LoopLost(Exception):
    """The program has closed the sockets by which other threads wake the loop."""


class LinkLoop(asyncio.SelectorEventLoop):
    """An event loop that touches no descriptor that the program has taken over, and ends with LoopLost if its own are.

    Its thread is at rest while it waits for events.
    """

    _ssock: OwnSocket
    _csock: OwnSocket

    def __init__(self, fork_safety: ForkSafety) -> None:
        self._is_lost = False
        self._watched = ForkSafeSelector(fork_safety, self._check)
        super().__init__(self._watched)
        # PYTHONDEVMODE turns this on; asyncio would then complain on the job's stderr of a busy host.
        self.set_debug(False)
        # The default handler logs, and so may wait for a lock that a stopped thread of the program holds.
        self.set_exception_handler(_complain)

    def end(self) -> None:
        """End all tasks and close what the loop has opened; the loop does not run."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True) if tasks else asyncio.sleep(0))
        # An aborted TLS connection closes its socket after a few rounds; Python warns of a socket left open.
        for _ in range(3):
            self.run_until_complete(asyncio.sleep(0))
        self.close()

    def _make_self_pipe(self) -> None:
        # asyncio has no public way to replace the two sockets by which call_soon_threadsafe() wakes the loop.
        super()._make_self_pipe()  # type: ignore[misc]
        self._ssock, self._csock = (OwnSocket(fileno=end.detach()) for end in (self._ssock, self._csock))

    def _check(self) -> None:
        if not self._is_lost and not (self._ssock.is_open() and self._csock.is_open()):
            # The rounds in which the tasks end need no other thread.
            self._is_lost = True
            self._watched.unregister(self._ssock.fileno())
            raise LoopLost("the program has closed descriptors of dbg-agent")


def make_loop(fork_safety: ForkSafety) -> LinkLoop:
    """Return a new loop; raise OSError without free descriptors."""
    # asyncio then can't build a loop either, and complains on stderr of the half-built one.
    for end in socket.socketpair():
        end.close()
    return LinkLoop(fork_safety)


class ForkSafeSelector(selectors.PollSelector):
    """A selector that rests while it waits, and calls ``check`` before it returns.

    It has no descriptor, as epoll would: closing one that the program has closed and opened anew would take a file of
    the program. The link has three descriptors, for which poll is as fast.
    """

    def __init__(self, rest: ForkSafety, check: Callable[[], None]) -> None:
        super().__init__()
        self._rest = rest
        self._check = check

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return what is ready, after ``timeout`` seconds at most; raise what ``check`` raises."""
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
    say(f"{context.get('message', 'a fault')} ({why})")
