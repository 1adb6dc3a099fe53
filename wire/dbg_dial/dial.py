"""Open a WebSocket to the broker. The broker's pinned certificate is checked before a token is sent.

This module imports asyncio, TLS and websockets, which takes long: a rank imports it in its link's thread alone. Errors
are those of :mod:`dbg_wire.errors`, so that no other module needs to know the library.
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
from dbg_dial.endpoint import Endpoint, Reach
from dbg_dial.pin import check_certificate, check_endpoint, client_context
from dbg_dial.tcp import Address, connected, within
from dbg_wire import subprotocol
from dbg_wire.errors import BrokerUnreachable, DbgError, WrongCertificate, WrongVersion
from dbg_wire.limits import CLOSE_SECONDS, MAX_FRAME_BYTES

AddressInfos = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]]
"""What :func:`socket.getaddrinfo` returns."""

T = TypeVar("T")

AskNameServer = Callable[[Callable[[], AddressInfos]], Awaitable[AddressInfos]]
"""Runs a call that blocks until a name server answers."""


class BrokerWebSocket(ClientConnection):
    """A WebSocket to a broker, opened in three steps: :meth:`secure`, :meth:`compare` and :meth:`present`.

    It counts what comes, and sends no pings by itself. Raise BadEndpoint for a broker without a pin.
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
        """How many bytes have come."""
        self._endpoint = endpoint
        self._host = uri.host
        self._is_compared = False

    def data_received(self, data: bytes) -> None:
        """Count the bytes, and pass them on."""
        self.heard += len(data)
        super().data_received(data)

    async def secure(self, sock: socket.socket) -> str:
        """Make the TLS handshake over a connected socket, which belongs to this from then on; return TLS's version."""
        context = client_context(self._endpoint)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=sock, ssl=context, server_hostname=self._host)
        return self._tls.version() or "TLS"

    def compare(self) -> str:
        """Return the fingerprint of the certificate shown. Raise WrongCertificate if it is not a pinned one."""
        shown = check_certificate(self._endpoint, self._tls.getpeercert(binary_form=True))
        self._is_compared = True
        return shown

    async def present(self, token: str) -> None:
        """Ask with this token for the upgrade. Raise WrongCertificate, with nothing sent, before :meth:`compare`."""
        if not self._is_compared:
            raise WrongCertificate(self.broker_url, "its certificate was not looked at")
        await self.handshake({"Authorization": f"Bearer {token}"}, None)
        if self.subprotocol != subprotocol():
            raise WrongVersion(self.broker_url, f"it did not agree to {subprotocol()}")

    def abort(self) -> None:
        """Close the connection at once, whatever is open by now."""
        # The library says goodbye first; asyncio then waits for half a minute for the peer's answer.
        if (transport := getattr(self, "transport", None)) is not None:
            transport.abort()

    @property
    def _tls(self) -> ssl.SSLObject:
        found: ssl.SSLObject = self.transport.get_extra_info("ssl_object")
        return found


async def first_to_answer(
    routes: Sequence[Reach], dial: Callable[[Reach, int], Awaitable[T]], *, final: type[DbgError] | None = None
) -> T:
    """Return the connection to the first broker that takes this peer; each is dialled as soon as the one before fails.

    ``dial`` is given a route, and how many are left with it. A ``final`` error is raised at once.
    Else raise the error of the first one that answers and refuses, or hangs up; if none answers, that of the first one.
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
        raise BrokerUnreachable(first.url, f"{first.reason}, and {len(problems) - 1} others fail, too")
    raise first


async def dial_broker(
    reach: Reach,
    path: str,
    ask: AskNameServer,
    seconds: float,
    *,
    connect_seconds: float,
    until: float | None = None,
    answered: Callable[[], None] | None = None,
) -> BrokerWebSocket:
    """Return an open WebSocket to a broker, to the first of its addresses whose kernel takes the connection.

    It takes ``seconds`` at most, or ends at ``until`` by the loop's clock; an address gets ``connect_seconds`` at most.
    ``answered`` is called as soon as a kernel has taken the connection, long before it is open.
    Raise BadEndpoint before a byte is sent, if there is no pin. Raise WrongCertificate before the token is sent. Raise
    BrokerUnreachable or another Refused that says why there is no connection.
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
    """Return a socket that is connected to the first address whose kernel takes the connection.

    Each gets ``connect_seconds`` at most, and a silent one leaves the others their share of the time until ``ends``.
    Raise OSError.
    """
    loop = asyncio.get_running_loop()
    problem: OSError = OSError("its name has no address")
    for left, address in zip(range(len(found), 0, -1), found, strict=True):
        try:
            return await connected(address, min(connect_seconds, max(0.0, ends - loop.time()) / left))
        except OSError as error:
            problem = error
    raise problem


async def addresses(endpoint: Endpoint, ask: AskNameServer) -> list[Address]:
    """Return the addresses of the broker's host. ``ask`` looks the host up, unless the host is an address itself.

    The event loop's own executor can't run the lookup: Python waits for its threads at the end of the program.
    Raise BrokerUnreachable if nobody says what the name is, and BadEndpoint for a broker that must not be dialled.
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
            why = "no name server answers" if is_silent else getattr(error, "strerror", "no host name")
            raise BrokerUnreachable(endpoint.url, f"the host's name can't be resolved: {why}") from None
    return list(dict.fromkeys((entry[0], entry[4]) for entry in found))


async def open_websocket(reach: Reach, path: str, sock: socket.socket, seconds: float) -> BrokerWebSocket:
    """Return an open WebSocket over a connected socket; TLS and the upgrade take ``seconds`` at most.

    The socket belongs to the WebSocket from then on. The caller passes errors to
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
        # The socket is closed later: a transport that uses it by now has to close it first.
        asyncio.get_running_loop().call_soon(sock.close)
        if websocket is not None:
            websocket.abort()
        raise
    return websocket


async def ask_here(find: Callable[[], AddressInfos]) -> AddressInfos:
    """Look a host up in this thread, for a program that does nothing else meanwhile."""
    return find()


async def is_served(endpoint: Endpoint, seconds: float) -> bool:
    """Return whether a broker with this endpoint's certificate listens at its address, which is told within seconds."""
    ends = asyncio.get_running_loop().time() + seconds
    websocket = BrokerWebSocket(endpoint, "/")
    try:
        sock = await first_to_connect(await addresses(endpoint, ask_here), seconds, ends)
        await within(seconds, websocket.secure(sock))
        websocket.compare()
    except (DbgError, OSError):
        return False
    finally:
        websocket.abort()
    return True


def _silent() -> logging.Logger:
    """Return a logger that writes nothing and takes no lock.

    A stopped thread of a rank's program may hold a lock of :mod:`logging`. The link's thread must not wait for it.
    """
    logger = logging.Logger("dbg_dial.websockets")
    logger.disabled = True
    return logger
