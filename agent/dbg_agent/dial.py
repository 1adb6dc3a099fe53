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

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from dbg_wire.endpoint import Endpoint, Reach, fingerprint_of, same_fingerprint
from dbg_wire.errors import BrokerUnreachable, DbgError, Refused, WrongCertificate, WrongToken, WrongVersion
from dbg_wire.limits import CLOSE_SECONDS, CONNECTION_DEAD_SECONDS, MAX_FRAME_BYTES
from dbg_wire.version import PROTOCOL_MAJOR, subprotocol

PING_SECONDS = 20.0
"""Seconds between two pings of the link: below the idle time-outs of common firewalls and tunnels."""

OPEN_SECONDS = 10.0
"""Seconds for one attempt, from the name look-up to the upgrade."""


def pinned_connection(url: str, fingerprint: str | None, opened: list[asyncio.BaseTransport]) -> type[ClientConnection]:
    """Return a connection class that looks at the peer's certificate first and sends nothing to a wrong one.

    What it opens is added to ``opened``.
    """

    class Pinned(ClientConnection):
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


async def dial(reach: Reach, path: str) -> ClientConnection:
    """Return an open connection; raise BrokerUnreachable or a Refused that says what is wrong.

    Blocks the calling thread while it looks up the host's name.
    """
    problem = BrokerUnreachable(reach.endpoint.url, "its name has no address")
    for address in _addresses(reach.endpoint):
        try:
            return await _dial_address(reach, path, address)
        except BrokerUnreachable as error:
            problem = error
    raise problem


def _addresses(endpoint: Endpoint) -> list[str]:
    # Here, and not by the event loop: it asks in an executor, for whose threads Python waits at the end of the program,
    # so that a name server which does not answer would delay that.
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not a host name"
        raise BrokerUnreachable(endpoint.url, f"the name {endpoint.host} is unknown here: {why}") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def _dial_address(reach: Reach, path: str, address: str) -> ClientConnection:
    endpoint = reach.endpoint
    url = endpoint.url
    options: dict[str, object] = {}
    opened: list[asyncio.BaseTransport] = []
    if "proxy" in inspect.signature(connect.__init__).parameters:
        # From release 15 on a proxy of the environment would be used; a cluster's web proxy doesn't know login1.
        options["proxy"] = None
    try:
        connection = await connect(
            url + path,
            subprotocols=[subprotocol()],  # type: ignore[list-item] # a NewType of str
            additional_headers={"Authorization": f"Bearer {reach.token}"},
            create_connection=pinned_connection(url, endpoint.fingerprint, opened),
            ssl=_context(endpoint.secure),
            compression=None,
            max_size=MAX_FRAME_BYTES,
            logger=_silent(),
            open_timeout=OPEN_SECONDS,
            close_timeout=CLOSE_SECONDS,
            ping_interval=PING_SECONDS,
            ping_timeout=CONNECTION_DEAD_SECONDS,
            user_agent_header=None,
            host=address,
            port=endpoint.port,
            **options,  # type: ignore[arg-type] # depends on the release
        )
    except BaseException as error:
        for transport in opened:
            # The library closes politely, and asyncio before Python 3.11 then waits for the peer's goodbye without end.
            transport.abort()  # type: ignore[attr-defined] # declared for subclasses, which all of these are
        raise _problem(url, error) from None
    if connection.subprotocol != subprotocol():
        connection.transport.abort()
        raise WrongVersion(url, f"it did not agree to {subprotocol()}")
    return connection


def _silent() -> logging.Logger:
    """Return a logger that asks nobody and takes no lock.

    A thread of the program may be stopped within its logging, and would keep the link's thread waiting for its locks.
    """
    logger = logging.Logger("dbg_agent.websockets")
    logger.disabled = True
    return logger


def _problem(url: str, error: BaseException) -> BaseException:
    """Return in our words why no connection came about; what is not about the peer comes back as it is."""
    if isinstance(error, DbgError):
        return error
    if isinstance(error, InvalidStatus):
        return _refusal(url, error)
    if isinstance(error, ssl.SSLError):
        return WrongCertificate(url, f"it does not speak TLS as the broker does: {error.reason or 'no TLS'}")
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return BrokerUnreachable(url, f"no answer within {OPEN_SECONDS:.0f} s")
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
