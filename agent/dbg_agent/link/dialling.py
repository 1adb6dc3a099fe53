"""How a rank gets a connection, and notices that its broker is silent; in the link's thread."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from dbg_agent.link.lookup import Lookups
from dbg_agent.process.log import Logger
from dbg_dial.dial import (
    AddressInfos,
    BrokerWebSocket,
    Wording,
    addresses,
    explain,
    first_to_answer,
    open_websocket,
)
from dbg_dial.endpoint import Endpoint, Reach
from dbg_dial.tcp import Address, connected
from dbg_dial.waiting import Handover, within
from dbg_wire.errors import BrokerUnreachable, DbgError, HungUp, error_line
from dbg_wire.limits import PROBE_IDLE_SECONDS, SILENT_SECONDS

CONNECT_SECONDS = 2.0
"""Seconds for the peer's kernel to take a connection: our kernel asks ever more rarely, a new attempt asks at once."""

OPEN_SECONDS = 30.0
"""Seconds for TLS and the upgrade, all brokers together: a broker that thousands of ranks dial at once needs them, and
what it does for one that gives up is lost. While it is suspended, it costs the others this time."""

LOOKUP_SECONDS = 10.0
"""Seconds for the look-up of a name. A longer look-up goes on, and the next attempt uses it."""

WORDING = Wording(
    wrong_certificate="it shows another certificate",
    no_tls="it does not speak TLS as the broker does: {why}",
    no_broker="it does not answer as a broker does: {why}",
)

Answered = Callable[[], None]
"""A call that says that the peer's kernel has taken the connection."""

PING_SECONDS = PROBE_IDLE_SECONDS + 5.0
"""Seconds without a byte after which an idle link is pinged: below the idle time-outs of common firewalls and tunnels.
A broker that is there has sent a probe by then, which tells as much, so there is nothing to ping."""

PING_ATTENDED_SECONDS = 2.0
"""Seconds between two pings while a user sits at the rank, who should soon learn that a tunnel is silent."""

logger = Logger("dbg_agent.link")

FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS = 0.1, 2.0
"""Bounds of the random pause before the next attempt. A restarted broker has its ranks back within the upper bound, and
2,000 ranks come no faster than the broker can shake hands."""

AT_ONCE = 3_000
"""Ranks of a job that may dial at the same time, when all start or lose their broker: it holds so many in line."""

NEWCOMERS_PER_SECOND = 1_000
"""Ranks of a larger job that dial in a second: a broker with a core of its own shakes hands with so many."""

LONGEST_SPREAD_SECONDS = 5.0
"""Seconds over which the ranks of the largest jobs dial. A stop waits 10 s for the broker (``connect_timeout``)."""

LAST_REFUSED_SECONDS = 3.0
"""The upper bound if a broker refuses the rank: each attempt costs the broker a handshake."""

LAST_HUNG_UP_SECONDS = 16.0
"""The upper bound if a broker hangs up before a word, as it does if too many come: each costs the others time."""


async def dial(
    reach: Reach,
    path: str,
    lookups: Lookups,
    answered: Answered | None = None,
    *,
    known: Mapping[str, Address] | None = None,
    last: str = "",
) -> BrokerWebSocket:
    """Return an open connection; raise BrokerUnreachable, or a Refused or BadEndpoint that says what is wrong.

    ``answered`` is called as soon as the peer's kernel has taken the connection, long before it is open. Addresses
    that are ``known`` from before, by URL, stand in where nobody says what a name is now. The broker at the URL
    ``last`` is dialled after the others. After a broker that hangs up no other one is dialled at once: where too many
    ranks come, they come to all brokers.
    """
    routes = reach.routes(last)
    seconds = OPEN_SECONDS / len(routes)

    async def dial_one(route: Reach, _left: int) -> BrokerWebSocket:
        url = route.endpoint.url
        logger.debug("dials %s", url)
        problem = BrokerUnreachable(url, "its name has no address")
        for address in await _addresses(route, lookups, [known[url]] if known and url in known else []):
            try:
                return await _dial_address(route, path, address, answered, seconds)
            except BrokerUnreachable as error:
                problem = error
        raise problem

    return await first_to_answer(routes, dial_one, final=HungUp)


async def _addresses(reach: Reach, lookups: Lookups, known: Sequence[Address]) -> Sequence[Address]:
    endpoint = reach.endpoint
    try:
        return await addresses(reach, partial(_ask, lookups, endpoint))
    except DbgError:
        raise
    except (OSError, ValueError) as error:
        if known:
            return known
        raise _unknown(endpoint, error) from None


def _unknown(endpoint: Endpoint, error: Exception) -> BrokerUnreachable:
    if isinstance(error, TimeoutError):
        why = f"nobody says what {endpoint.host} is within {LOOKUP_SECONDS:.0f} s"
        return BrokerUnreachable(endpoint.url, why)
    why = getattr(error, "strerror", None) or "not a host name"
    return BrokerUnreachable(endpoint.url, f"the name {endpoint.host} is unknown here: {why}")


async def _ask(lookups: Lookups, endpoint: Endpoint, find: Callable[[], AddressInfos]) -> AddressInfos:
    return await lookups.ask(endpoint.host, find, LOOKUP_SECONDS)


async def _dial_address(
    reach: Reach, path: str, address: Address, answered: Answered | None, seconds: float
) -> BrokerWebSocket:
    url = reach.endpoint.url
    try:
        sock = await connected(address, CONNECT_SECONDS, keep_asking=True)
    except Exception as error:
        raise explain(url, error, CONNECT_SECONDS, WORDING) from None
    if answered is not None:
        answered()
    try:
        return await open_websocket(reach, path, sock, seconds, WORDING)
    except Exception as error:
        raise explain(url, error, seconds, WORDING) from None


async def until_silent(connection: BrokerWebSocket, heard: asyncio.Event, is_attended: Callable[[], bool]) -> None:
    """Return when a broker has not answered a ping for SILENT_SECONDS; ``heard`` is set by whatever comes from it."""
    while True:
        heard.clear()
        with suppress(TimeoutError):
            await within(PING_ATTENDED_SECONDS if is_attended() else PING_SECONDS, heard.wait())
            continue
        try:
            await within(SILENT_SECONDS, _answer(connection))
        except TimeoutError:
            return


async def _answer(connection: BrokerWebSocket) -> None:
    await (await connection.ping())


class Dialler:
    """The attempts of a rank to connect; each one looks for the broker anew.

    ``find`` returns where the broker is; with True it waits for a home that hangs, else it raises SilentFile soon.
    """

    def __init__(
        self,
        find: Callable[[bool], Awaitable[Reach]],
        is_attended: Callable[[], bool],
        names: Lookups,
        world_size: Callable[[], int] = lambda: 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._clock = clock
        self._world_size = world_size
        self._is_attended = is_attended
        self._names = names
        self._attempt = 0
        self._handover = Handover()
        self._last: Reach | None = None
        self._known: dict[str, Address] = {}
        """How the last connection was reached: after chroot() the program's files name no broker, and no address."""
        self._avoided = ""
        """The address of the broker that hung up on this rank or was silent last: others may have more time."""
        self.unanswered_since: float | None = None
        """The time since which no kernel takes a connection; None once a kernel does, and before the first attempt."""
        self.has_been_answered = False
        """Whether a kernel took the last connection that was taken or refused."""

    def first_pause(self) -> float:
        """Return the seconds to wait before the first attempt: none, but in a job of thousands of ranks."""
        return random.uniform(0, self._spread())  # noqa: S311 - no secret

    def _spread(self) -> float:
        """Return the seconds over which the ranks of this job dial."""
        ranks = self._world_size()
        return 0.0 if ranks <= AT_ONCE else min(LONGEST_SPREAD_SECONDS, ranks / NEWCOMERS_PER_SECOND)

    def pause(self, error: DbgError | None) -> float:
        """Return the seconds to wait before the next attempt, after one that ended with ``error``, or None if good."""
        self._attempt = 0 if error is None else min(self._attempt + 1, 30)
        last = LAST_BACKOFF_SECONDS if error is None or isinstance(error, BrokerUnreachable) else LAST_REFUSED_SECONDS
        if isinstance(error, HungUp):
            last = LAST_HUNG_UP_SECONDS
        longest = max(self._spread(), min(last, FIRST_BACKOFF_SECONDS * 2**self._attempt))
        longest = self._handover.bound(longest, time.monotonic())
        return random.uniform(0, longest)  # noqa: S311 - no secret

    def ended(self, connection: BrokerWebSocket) -> None:
        """Note that a connection has ended, while it is known whether a terminal looks.

        If the broker has ended, the next one is expected soon, and a rank at which a terminal looks dials often. The
        others don't: thousands of them would read the home's files several times a second.
        """
        if self._is_attended():
            self._handover.ended(connection.protocol.close_code, time.monotonic())

    def was_silent(self, connection: BrokerWebSocket) -> None:
        """Note that a broker does not answer, so that others are dialled before it."""
        self._avoided = connection.broker_url

    async def dial(self) -> BrokerWebSocket:
        """Return an open connection to where the broker is now; raise a DbgError that says why there is none."""
        if self.unanswered_since is None:
            self.unanswered_since = self._clock()
        try:
            connection = await self._dial_found()
        except DbgError as error:
            if isinstance(error, HungUp):
                self._avoided = error.url
            if self.unanswered_since is not None:
                self.has_been_answered = False
            raise
        except Exception as error:
            # A fault here or in a library must not end the link's thread: without it no stopped rank can go on.
            raise BrokerUnreachable("its address", error_line(error)) from None
        self._avoided = ""
        return connection

    async def _dial_found(self) -> BrokerWebSocket:
        try:
            # A home that hangs must not keep a stopped rank from the broker that it knows.
            reach = await self._find(self._last is None)
        except DbgError:
            if self._last is None:
                raise
            with suppress(DbgError):
                return await self._dial_at(self._last)
            raise
        return await self._dial_at(reach)

    async def _dial_at(self, reach: Reach) -> BrokerWebSocket:
        connection = await dial(
            reach,
            "/agent",
            self._names,
            self._answered,
            known=self._known,
            last=self._avoided,
        )
        address = address_of(connection)
        if address is not None:
            self._last, self._known = reach, {connection.broker_url: address}
        return connection

    def _answered(self) -> None:
        self.unanswered_since = None
        self.has_been_answered = True


def address_of(connection: BrokerWebSocket) -> Address | None:
    """Return the address at which the peer of a connection was reached; None if the connection is lost by now."""
    sock, peer = (connection.transport.get_extra_info(name) for name in ("socket", "peername"))
    return None if sock is None or peer is None else (sock.family, peer)
