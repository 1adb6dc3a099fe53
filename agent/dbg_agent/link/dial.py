"""One connection attempt of a rank: each address in turn, given up as soon as its host is gone.

Only the link's thread imports this module, since asyncio and websockets are heavy.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial

from dbg_agent.link.name_servers import Lookups
from dbg_dial.deadline import within
from dbg_dial.dial import AddressInfos, BrokerWebSocket, Timing, Wording, addresses, explain, open_websocket
from dbg_dial.tcp import Address, connected, seconds_since_ack_of
from dbg_wire.errors import BrokerUnreachable, DbgError
from dbg_wire.finding.endpoint import Endpoint, Reach
from dbg_wire.limits import CONNECTION_DEAD_SECONDS

CONNECT_SECONDS = 2.0
"""Seconds for the peer's kernel to take a connection: our kernel asks ever more rarely, a new attempt asks at once."""

OPEN_SECONDS = 10.0
"""Seconds for TLS and the upgrade: a broker needs some of them when thousands of ranks come back at once."""

GONE_SECONDS = 3.0
"""Seconds of silence of the peer's kernel that end a handshake. Our kernel asks it after two seconds. A new attempt
finds the peer as soon as it is back."""

LOOK_SECONDS = 0.5
"""Seconds between two checks that the peer of a handshake is still there."""

LOOKUP_SECONDS = 10.0
"""Seconds for the look-up of a name. A longer look-up goes on, and the next attempt uses it."""

TIMING = Timing(opening=OPEN_SECONDS, ping=CONNECTION_DEAD_SECONDS / 2, pong=CONNECTION_DEAD_SECONDS / 2)
"""The library's own pings end a dead connection. Its silence is noticed long before, by :mod:`.silence`."""

WORDING = Wording(
    wrong_certificate="it shows another certificate",
    no_tls="it does not speak TLS as the broker does: {why}",
    no_broker="it does not answer as a broker does: {why}",
)

Answered = Callable[[], None]
"""A call that says that the peer's kernel has taken the connection."""


async def dial(
    reach: Reach, path: str, lookups: Lookups, answered: Answered | None = None, known: Sequence[Address] = ()
) -> BrokerWebSocket:
    """Return an open connection; raise BrokerUnreachable, or a Refused or BadEndpoint that says what is wrong.

    ``answered`` is called as soon as the peer's kernel has taken the connection, long before it is open. Addresses
    that are ``known`` from before stand in where nobody says what the name is now.
    """
    problem = BrokerUnreachable(reach.endpoint.url, "its name has no address")
    for address in await _addresses(reach, lookups, known):
        try:
            return await _dial_address(reach, path, address, answered)
        except BrokerUnreachable as error:
            problem = error
    raise problem


async def _addresses(reach: Reach, lookups: Lookups, known: Sequence[Address]) -> Sequence[Address]:
    endpoint = reach.endpoint
    try:
        return await addresses(reach, partial(_ask, lookups, endpoint))
    except DbgError:
        raise
    except (asyncio.TimeoutError, OSError, ValueError) as error:
        if known:
            return known
        raise _unknown(endpoint, error) from None


def _unknown(endpoint: Endpoint, error: Exception) -> BrokerUnreachable:
    if isinstance(error, asyncio.TimeoutError):
        why = f"nobody says what {endpoint.host} is within {LOOKUP_SECONDS:.0f} s"
        return BrokerUnreachable(endpoint.url, why)
    why = getattr(error, "strerror", None) or "not a host name"
    return BrokerUnreachable(endpoint.url, f"the name {endpoint.host} is unknown here: {why}")


async def _ask(lookups: Lookups, endpoint: Endpoint, find: Callable[[], AddressInfos]) -> AddressInfos:
    return await lookups.ask(endpoint.host, find, LOOKUP_SECONDS)


async def _dial_address(reach: Reach, path: str, address: Address, answered: Answered | None) -> BrokerWebSocket:
    url = reach.endpoint.url
    try:
        sock = await within(CONNECT_SECONDS, connected(address, keep_asking=True))
    except Exception as error:
        raise explain(url, error, CONNECT_SECONDS, WORDING) from None
    if answered is not None:
        answered()
    opening = asyncio.ensure_future(open_websocket(reach, path, sock, TIMING, WORDING))
    try:
        await _while_there(opening, sock)
        return opening.result()
    except BaseException as error:
        opening.cancel()
        (outcome,) = await asyncio.gather(opening, return_exceptions=True)
        if not isinstance(outcome, BaseException):
            # The connection opened just when this attempt was given up.
            outcome.transport.abort()
        raise explain(url, error, OPEN_SECONDS, WORDING) from None


async def _while_there(opening: asyncio.Future[BrokerWebSocket], sock: socket.socket) -> None:
    """Wait for the end of a handshake; raise TimeoutError if the peer's kernel falls silent meanwhile."""
    while not opening.done():
        await asyncio.wait({opening}, timeout=LOOK_SECONDS)
        if not opening.done() and seconds_since_ack_of(sock) >= GONE_SECONDS:
            raise asyncio.TimeoutError
