"""WebSocket connection to the broker. The pinned certificate of the broker is checked before a token is sent.

This module imports asyncio, TLS and websockets, which takes long, so a rank imports it only in the thread of its link.
It raises the errors of :mod:`dbg_wire.errors`, so that other modules don't depend on websockets.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from dbg_dial.connect_errors import explain
from dbg_dial.endpoint import Endpoint, Route
from dbg_dial.pin import check_certificate, check_endpoint, client_context
from dbg_dial.tcp import Address, connected, within
from dbg_wire import subprotocol
from dbg_wire.errors import BrokerUnreachable, DbgError, WrongCertificate, WrongVersion
from dbg_wire.limits import CLOSE_SECONDS, MAX_FRAME_BYTES

AddressInfos = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]]
"""Result of :func:`socket.getaddrinfo`."""

T = TypeVar("T")

AskNameServer = Callable[[Callable[[], AddressInfos]], Awaitable[AddressInfos]]
"""Function that runs a DNS lookup, which blocks until a name server answers."""


class BrokerWebSocket(ClientConnection):
    """WebSocket to a broker, opened in three steps: :meth:`secure`, :meth:`compare` and :meth:`present`.

    It counts received bytes and sends no pings by itself. The constructor raises BadEndpoint for a broker that can't be
    verified.
    """

    def __init__(self, endpoint: Endpoint, path: str) -> None:
        check_endpoint(endpoint)
        uri = parse_uri(endpoint.url + path)
        protocol = ClientProtocol(
            uri,
            subprotocols=[subprotocol()],  # type: ignore[list-item] # a NewType of str
            max_size=MAX_FRAME_BYTES,
            logger=_silent(),
        )
        super().__init__(protocol, ping_interval=None, close_timeout=CLOSE_SECONDS)
        self.broker_url = endpoint.url
        self.heard = 0
        """Number of received bytes."""
        self._endpoint = endpoint
        self._host = uri.host
        self._is_compared = False

    def data_received(self, data: bytes) -> None:
        """Count the bytes before the library processes them."""
        self.heard += len(data)
        super().data_received(data)

    async def secure(self, sock: socket.socket) -> str:
        """Perform the TLS handshake over a connected socket and take ownership of it; return the TLS version."""
        context = client_context(self._endpoint)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=sock, ssl=context, server_hostname=self._host)
        return self._tls.version() or "TLS"

    def compare(self) -> str:
        """Return the fingerprint of the peer's certificate. Raise WrongCertificate if it is not the pinned one."""
        shown = check_certificate(self._endpoint, self._tls.getpeercert(binary_form=True))
        self._is_compared = True
        return shown

    async def present(self, token: str) -> None:
        """Request the upgrade with this token. Without a previous :meth:`compare`, raise WrongCertificate instead."""
        if not self._is_compared:
            raise WrongCertificate(self.broker_url, "it was not checked")
        await self.handshake({"Authorization": f"Bearer {token}"}, None)
        if self.subprotocol != subprotocol():
            raise WrongVersion(self.broker_url, f"it does not support {subprotocol()}")

    def abort(self) -> None:
        """Close the connection at once, at any stage of opening it."""
        # websockets would first send a close frame, and asyncio would wait half a minute for the peer's answer.
        if (transport := getattr(self, "transport", None)) is not None:
            transport.abort()

    @property
    def _tls(self) -> ssl.SSLObject:
        found: ssl.SSLObject = self.transport.get_extra_info("ssl_object")
        return found


async def first_to_answer(
    routes: Sequence[Route], dial: Callable[[Route, int], Awaitable[T]], *, final: type[DbgError] | None = None
) -> T:
    """Connect to the first broker that accepts this peer. Each route is tried as soon as the previous attempt fails.

    ``dial(route, remaining)`` makes one attempt; ``remaining`` is the number of routes that are not tried yet,
    including this one. An error of the type ``final`` is raised at once. If every attempt fails, raise the first error
    of a broker that answered. If no broker answered, raise the error of the first route.
    """
    problems: list[DbgError] = []
    for tried, route in enumerate(routes):
        try:
            return await dial(route, len(routes) - tried)
        except DbgError as error:
            if final is not None and isinstance(error, final):
                raise
            problems.append(error)
    first = next((error for error in problems if type(error) is not BrokerUnreachable), problems[0])
    if type(first) is BrokerUnreachable and len(problems) > 1:
        raise BrokerUnreachable(first.url, f"{first.reason}, and {len(problems) - 1} others fail as well")
    raise first


async def dial_broker(
    reach: Route,
    path: str,
    ask: AskNameServer,
    seconds: float,
    *,
    connect_seconds: float,
    until: float | None = None,
    answered: Callable[[], None] | None = None,
) -> BrokerWebSocket:
    """Open a WebSocket to a broker, at the first of its addresses that accepts the TCP connection.

    The timeout is ``seconds``, or the loop time ``until``; each address gets at most ``connect_seconds``.
    ``answered`` is called as soon as the TCP connection is established, long before the WebSocket is open. Raise
    BadEndpoint before a byte is sent if the broker can't be verified, and WrongCertificate before the token is sent.
    Raise BrokerUnreachable or another Refused with the reason why there is no connection.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds if until is None else until
    try:
        sock = await first_to_connect(await addresses(reach.endpoint, ask), connect_seconds, ends)
        if answered is not None:
            answered()
        return await open_websocket(reach, path, sock, max(0.0, ends - loop.time()))
    except Exception as error:
        raise explain(reach.endpoint.url, error, seconds) from None


async def first_to_connect(found: Sequence[Address], connect_seconds: float, ends: float) -> socket.socket:
    """Connect to the first address that accepts a TCP connection, and return the socket.

    Each address gets at most ``connect_seconds``, and at most its share of the time left until ``ends``, so that a
    silent address leaves time for the others. Raise OSError.
    """
    loop = asyncio.get_running_loop()
    problem: OSError = OSError("the host name has no address")
    for left, address in zip(range(len(found), 0, -1), found, strict=True):
        try:
            return await connected(address, min(connect_seconds, max(0.0, ends - loop.time()) / left))
        except OSError as error:
            problem = error
    raise problem


async def addresses(endpoint: Endpoint, ask: AskNameServer) -> list[Address]:
    """Return the addresses of the broker's host. ``ask`` runs the DNS lookup, unless the host is an IP address.

    The event loop's own executor can't run the lookup: when the program ends, Python waits for the executor's threads.
    Raise BrokerUnreachable if the name can't be resolved, and BadEndpoint for a broker that can't be verified.
    """
    check_endpoint(endpoint)
    find = partial(socket.getaddrinfo, endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    try:
        found: AddressInfos = find(flags=socket.AI_NUMERICHOST)
    except OSError:
        try:
            found = await ask(find)
        except (OSError, ValueError) as error:
            is_silent = isinstance(error, TimeoutError)
            why = "no name server answers" if is_silent else getattr(error, "strerror", "not a host name")
            raise BrokerUnreachable(endpoint.url, f"the host name can't be resolved: {why}") from None
    return list(dict.fromkeys((entry[0], entry[4]) for entry in found))


async def open_websocket(reach: Route, path: str, sock: socket.socket, seconds: float) -> BrokerWebSocket:
    """Open a WebSocket over a connected socket; the timeout for TLS and the upgrade is ``seconds``.

    The WebSocket takes ownership of the socket. The caller must pass errors to
    :func:`~dbg_dial.connect_errors.explain`.
    """
    websocket: BrokerWebSocket | None = None
    try:
        websocket = BrokerWebSocket(reach.endpoint, path)
        async with asyncio.timeout(seconds):
            await websocket.secure(sock)
            websocket.compare()
            await websocket.present(reach.token)
    except BaseException:
        # A transport that already uses the socket must close it first. So this close waits for the loop's next round.
        asyncio.get_running_loop().call_soon(sock.close)
        if websocket is not None:
            websocket.abort()
        raise
    return websocket


async def resolve_in_this_thread(find: Callable[[], AddressInfos]) -> AddressInfos:
    """Run the DNS lookup in this thread, for a program that does nothing else at that time."""
    return find()


async def is_served(endpoint: Endpoint, seconds: float) -> bool:
    """Return True if a broker with this endpoint's certificate listens at its address; the timeout is ``seconds``."""
    ends = asyncio.get_running_loop().time() + seconds
    websocket = BrokerWebSocket(endpoint, "/")
    try:
        sock = await first_to_connect(await addresses(endpoint, resolve_in_this_thread), seconds, ends)
        await within(seconds, websocket.secure(sock))
        websocket.compare()
    except (DbgError, OSError):
        return False
    finally:
        websocket.abort()
    return True


def _silent() -> logging.Logger:
    """Return a logger that writes nothing and acquires no lock.

    A stopped thread of a rank's program may hold a lock of :mod:`logging`. The thread of the link must not wait for it.
    """
    logger = logging.Logger("dbg_dial.websockets")
    logger.disabled = True
    return logger
