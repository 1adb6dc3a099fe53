"""Open one connection to the broker, having seen its pinned certificate before a token leaves.

Imported in the link's thread alone, since asyncio and websockets are heavy. Failures come out as
:mod:`dbg_wire.errors`, so that nobody else here knows the library.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from dbg_wire.endpoint import Endpoint, Reach, fingerprint_of, same_fingerprint
from dbg_wire.errors import BrokerUnreachable, DbgError, Refused, WrongCertificate, WrongToken, WrongVersion
from dbg_wire.limits import CLOSE_SECONDS, CONNECTION_DEAD_SECONDS, MAX_FRAME_BYTES
from dbg_wire.version import PROTOCOL_MAJOR, subprotocol

from .name_servers import Lookups
from .silence import PING_SECONDS, keep_asking, seconds_since_ack

CONNECT_SECONDS = 2.0
"""Seconds for the peer's kernel to take a connection: ours asks ever more rarely, and a new attempt asks at once."""

OPEN_SECONDS = 10.0
"""Seconds for TLS and the upgrade: a broker to which thousands of ranks come back at once takes some of them."""

GONE_SECONDS = 3.0
"""Seconds of silence of the peer's kernel that end a handshake: it is asked after two of them, and a new attempt finds
the peer as soon as it is back."""

LOOK_SECONDS = 0.5
"""Seconds between two looks at whether the peer of a handshake is still there."""

LOOKUP_SECONDS = 10.0
"""Seconds for the look-up of a name; one that takes longer goes on for the next attempt."""

Answered = Callable[[], None]
"""Is called when the peer's kernel has taken the connection."""


class Connection(ClientConnection):
    """Be a connection of websockets that says when it was heard last."""

    heard_at = 0.0
    """When the last byte came, on the event loop's clock."""
    broker_url = ""
    """Who is at the other end."""

    def data_received(self, data: bytes) -> None:
        """Take bytes from the peer."""
        self.heard_at = self.loop.time()
        super().data_received(data)

    def seconds_since_ack(self) -> float:
        """Return for how long the peer's kernel has said nothing; 0 if that can't be told."""
        sock = self.transport.get_extra_info("socket")
        return 0.0 if sock is None else seconds_since_ack(sock)


def pinned_connection(url: str, fingerprint: str | None, opened: list[asyncio.BaseTransport]) -> type[Connection]:
    """Return a connection class that looks at the peer's certificate first and sends nothing to a wrong one.

    What it opens is added to ``opened``.
    """

    class Pinned(Connection):
        broker_url = url

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            opened.append(transport)
            super().connection_made(transport)

        async def handshake(self, *args: object, **kwargs: object) -> None:
            if fingerprint is not None:
                tls = self.transport.get_extra_info("ssl_object")
                shown = tls.getpeercert(binary_form=True) if tls is not None else None
                if not shown or not same_fingerprint(fingerprint_of(shown), fingerprint):
                    raise WrongCertificate(url, "it shows another certificate")
            await super().handshake(*args, **kwargs)  # type: ignore[arg-type] # passed on unseen, over all releases

    return Pinned


def _context(secure: bool) -> ssl.SSLContext | None:
    if not secure:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The pin is the check: names and authorities say nothing about a certificate that a broker made for itself.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def dial(reach: Reach, path: str, lookups: Lookups, answered: Answered | None = None) -> Connection:
    """Return an open connection; raise BrokerUnreachable or a Refused that says what is wrong.

    ``answered`` is called as soon as the peer's kernel has taken the connection, long before it is open.
    """
    problem = BrokerUnreachable(reach.endpoint.url, "its name has no address")
    for address in await _addresses(reach.endpoint, lookups):
        try:
            return await _dial_address(reach, path, address, answered)
        except BrokerUnreachable as error:
            problem = error
    raise problem


_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


async def _addresses(endpoint: Endpoint, lookups: Lookups) -> list[_Address]:
    """Return what the host's name stands for.

    Not asked by the event loop: it asks in an executor, for whose threads Python waits at the end of the program.
    """
    find = partial(socket.getaddrinfo, endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    try:
        try:
            found = find(flags=socket.AI_NUMERICHOST)
        except OSError:
            found = await lookups.ask(endpoint.host, find, LOOKUP_SECONDS)
    except asyncio.TimeoutError:
        why = f"nobody says what {endpoint.host} is within {LOOKUP_SECONDS:.0f} s"
        raise BrokerUnreachable(endpoint.url, why) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not a host name"
        raise BrokerUnreachable(endpoint.url, f"the name {endpoint.host} is unknown here: {why}") from None
    return list(dict.fromkeys((entry[0], entry[4]) for entry in found))


async def _dial_address(reach: Reach, path: str, address: _Address, answered: Answered | None) -> Connection:
    url = reach.endpoint.url
    try:
        sock = await _connected(address)
    except Exception as error:
        raise _problem(url, error, CONNECT_SECONDS) from None
    if answered is not None:
        answered()
    opened: list[asyncio.BaseTransport] = []
    opening = asyncio.ensure_future(_open(reach, path, sock, opened))
    try:
        await _while_there(opening, sock)
        connection = opening.result()
    except BaseException as error:
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        # After the transport, if it has one by now, has closed it.
        asyncio.get_running_loop().call_soon(sock.close)
        for transport in opened:
            # The library closes politely, and asyncio before Python 3.11 then waits for the peer's goodbye without end.
            transport.abort()  # type: ignore[attr-defined] # declared for subclasses, which all of these are
        raise _problem(url, error, OPEN_SECONDS) from None
    if connection.subprotocol != subprotocol():
        connection.transport.abort()
        raise WrongVersion(url, f"it did not agree to {subprotocol()}")
    return connection


async def _connected(address: _Address) -> socket.socket:
    """Return a socket that the peer's kernel has taken."""
    family, name = address
    # The protocol is named, since asyncio sends small frames at once only where it is.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        keep_asking(sock)
        # Where an address of the link's scope has a zone, it is in the number behind it as well.
        name = (str(name[0]).partition("%")[0], *name[1:])
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(sock, name), CONNECT_SECONDS)
    except BaseException:
        sock.close()
        raise
    return sock


async def _open(reach: Reach, path: str, sock: socket.socket, opened: list[asyncio.BaseTransport]) -> Connection:
    """Return a WebSocket over a connected socket, which is the caller's no more."""
    endpoint = reach.endpoint
    options: dict[str, object] = {}
    if "proxy" in inspect.signature(connect.__init__).parameters:
        # From release 15 on a proxy of the environment would be used; a cluster's web proxy doesn't know login1.
        options["proxy"] = None
    return await connect(  # type: ignore[return-value] # what create_connection makes
        endpoint.url + path,
        subprotocols=[subprotocol()],  # type: ignore[list-item] # a NewType of str
        additional_headers={"Authorization": f"Bearer {reach.token}"},
        create_connection=pinned_connection(endpoint.url, endpoint.fingerprint, opened),
        ssl=_context(endpoint.secure),
        compression=None,
        max_size=MAX_FRAME_BYTES,
        logger=_silent(),
        open_timeout=OPEN_SECONDS,
        close_timeout=CLOSE_SECONDS,
        ping_interval=PING_SECONDS,
        ping_timeout=CONNECTION_DEAD_SECONDS,
        user_agent_header=None,
        sock=sock,
        **options,  # type: ignore[arg-type] # depends on the release
    )


async def _while_there(opening: asyncio.Future[Connection], sock: socket.socket) -> None:
    """Wait for the end of a handshake; TimeoutError if the peer's kernel has fallen silent in the midst of it."""
    while not opening.done():
        await asyncio.wait({opening}, timeout=LOOK_SECONDS)
        if not opening.done() and seconds_since_ack(sock) >= GONE_SECONDS:
            raise asyncio.TimeoutError


def _silent() -> logging.Logger:
    """Return a logger that asks nobody and takes no lock.

    A thread of the program may be stopped within its logging, and would keep the link's thread waiting for its locks.
    """
    logger = logging.Logger("dbg_agent.websockets")
    logger.disabled = True
    return logger


def _problem(url: str, error: BaseException, seconds: float) -> BaseException:
    """Return in our words why no connection came about; what is not about the peer comes back as it is."""
    if isinstance(error, DbgError):
        return error
    if isinstance(error, InvalidStatus):
        return _refusal(url, error)
    if isinstance(error, ssl.SSLError):
        return WrongCertificate(url, f"it does not speak TLS as the broker does: {error.reason or 'no TLS'}")
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return BrokerUnreachable(url, f"no answer within {seconds:.0f} s")
    if isinstance(error, OSError):
        # asyncio puts addresses into strerror, and several of them into a text without a number.
        return BrokerUnreachable(url, os.strerror(error.errno) if error.errno else str(error))
    if isinstance(error, EOFError) or isinstance(error.__cause__, EOFError):
        return BrokerUnreachable(url, "it hung up")
    if isinstance(error, (InvalidHandshake, WebSocketException)):
        return Refused(url, f"it does not answer as a broker does: {error}")
    return error


def _refusal(url: str, error: InvalidStatus) -> Refused:
    status = error.response.status_code
    body = (error.response.body or b"").decode("utf-8", "replace").strip()
    said = body or f"HTTP status {status}"
    if status in (401, 403):
        return WrongToken(url, said)
    if status == 426:
        return WrongVersion(url, said or f"this end speaks dbg.v{PROTOCOL_MAJOR}")
    return Refused(url, said)
