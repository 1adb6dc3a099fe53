"""Open a WebSocket to the broker. The broker's pinned certificate is checked before a token is sent.

This module imports asyncio, TLS and websockets, which takes long: a rank imports it in its link's thread alone. Errors
are those of :mod:`dbg_wire.errors`, so that no other module needs to know the library.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect

from dbg_dial.endpoint import Endpoint, Reach
from dbg_dial.pin import check_certificate, check_endpoint, client_context, explain
from dbg_dial.tcp import Address, connected
from dbg_wire import subprotocol
from dbg_wire.errors import BrokerUnreachable, DbgError, WrongVersion
from dbg_wire.limits import CLOSE_SECONDS, MAX_FRAME_BYTES

AddressInfos = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]]
"""What :func:`socket.getaddrinfo` returns."""

T = TypeVar("T")

AskNameServer = Callable[[Callable[[], AddressInfos]], Awaitable[AddressInfos]]
"""Runs a call that blocks until a name server answers."""


class BrokerWebSocket(ClientConnection):
    """A websockets connection to a broker that counts what comes; who has it pings."""

    heard = 0
    """How many bytes have come."""
    broker_url = ""

    def data_received(self, data: bytes) -> None:
        """Count the bytes, and pass them on."""
        self.heard += len(data)
        super().data_received(data)


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
        found = await addresses(reach, ask)
        problem: OSError = OSError("its name has no address")
        for left, address in zip(range(len(found), 0, -1), found, strict=True):
            try:
                sock = await connected(address, min(connect_seconds, max(0.0, ends - loop.time()) / left))
            except OSError as error:
                problem = error
                continue
            if answered is not None:
                answered()
            return await open_websocket(reach, path, sock, max(0.0, ends - loop.time()))
        raise problem
    except Exception as error:
        raise explain(reach.endpoint.url, error, seconds) from None


async def addresses(reach: Reach, ask: AskNameServer) -> list[Address]:
    """Return the addresses of the broker's host. ``ask`` looks the host up, unless the host is an address itself.

    The event loop's own executor can't run the lookup: Python waits for its threads at the end of the program.
    Raise BrokerUnreachable if nobody says what the name is, and BadEndpoint for a broker that must not be dialled.
    """
    endpoint = reach.endpoint
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

    The socket belongs to the WebSocket from then on. The caller passes an error to :func:`dbg_dial.pin.explain`.
    """
    opened: list[asyncio.BaseTransport] = []
    try:
        check_endpoint(reach.endpoint)
        websocket = await _connect(reach, path, sock, seconds, _pinned(reach.endpoint, opened))
    except BaseException:
        # The socket is closed later: a transport that uses it by now has to close it first.
        asyncio.get_running_loop().call_soon(sock.close)
        for transport in opened:
            # The library says goodbye first; asyncio then waits for half a minute for the peer's answer.
            transport.abort()  # type: ignore[attr-defined] # declared for subclasses only
        raise
    if websocket.subprotocol != subprotocol():
        websocket.transport.abort()
        raise WrongVersion(reach.endpoint.url, f"it did not agree to {subprotocol()}")
    return websocket


async def _connect(
    reach: Reach, path: str, sock: socket.socket, seconds: float, websocket: type[BrokerWebSocket]
) -> BrokerWebSocket:
    options: dict[str, Any] = {}
    if "proxy" in inspect.signature(connect.__init__).parameters:
        # From release 15 on, websockets uses a proxy that the environment names. A cluster's web proxy knows no host
        # of the cluster, such as login1.
        options["proxy"] = None
    return await connect(  # type: ignore[return-value] # what create_connection makes
        reach.endpoint.url + path,
        subprotocols=[subprotocol()],  # type: ignore[list-item] # a NewType of str
        additional_headers={"Authorization": f"Bearer {reach.token}"},
        create_connection=websocket,
        ssl=client_context(reach.endpoint),
        compression=None,
        max_size=MAX_FRAME_BYTES,
        logger=_silent(),
        open_timeout=seconds,
        close_timeout=CLOSE_SECONDS,
        ping_interval=None,
        user_agent_header=None,
        sock=sock,
        **options,
    )


def _pinned(endpoint: Endpoint, opened: list[asyncio.BaseTransport]) -> type[BrokerWebSocket]:
    """Return a class of connections that check the peer's certificate first, and send nothing after a wrong one.

    Each transport that it opens is added to ``opened``.
    """

    class Pinned(BrokerWebSocket):
        broker_url = endpoint.url

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            opened.append(transport)
            super().connection_made(transport)

        async def handshake(self, *args: Any, **kwargs: Any) -> None:
            tls = self.transport.get_extra_info("ssl_object")
            check_certificate(endpoint, tls.getpeercert(binary_form=True) if tls is not None else None)
            await super().handshake(*args, **kwargs)

    return Pinned


def _silent() -> logging.Logger:
    """Return a logger that writes nothing and takes no lock.

    A stopped thread of a rank's program may hold a lock of :mod:`logging`. The link's thread must not wait for it.
    """
    logger = logging.Logger("dbg_dial.websockets")
    logger.disabled = True
    return logger
