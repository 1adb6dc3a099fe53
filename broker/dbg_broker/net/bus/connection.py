"""One connection to NATS: it is opened once, and ends once; whoever needs another one opens that.

Only this folder imports NATS' client. Its own way to connect again is not used: what was subscribed to, asked and sent
on a connection ends with it, so that nothing of a former one is mixed into the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import errors

from dbg_broker.net.bus.buckets import ANSWER_SECONDS, BusDown
from dbg_broker.net.bus.login import NOBODY, Login
from dbg_wire import limits
from dbg_wire.errors import DbgError, error_line, printable

logger = logging.getLogger("dbg_broker")

CONNECT_SECONDS = 3.0
"""Seconds that a server has to take a connection: one on this cluster takes milliseconds."""

CLOSE_SECONDS = 0.5
"""Seconds that the end of a connection may take which has not begun well."""

PING_SECONDS = 1.0
MAX_PINGS = 2
"""Seconds between two pings, and how many may be without an answer: a server that is cut off is known after three."""

OLDEST = (2, 9)
"""The first release of NATS that is known to work: Debian 12 has it."""

MAX_PENDING_MESSAGES, MAX_PENDING_BYTES = 65536, 64 * limits.MIB
"""What may have come for one subscription and not been looked at; the rest is dropped, and missed by its number."""

Told = Callable[[str, bytes, "dict[str, str] | None"], None]
"""Takes subject, content and headers of what has come."""


class CantJoin(DbgError):
    """The cluster can't be joined: why, and what to do."""

    def __init__(self, why: str, remedy: str, exit_status: int = 1) -> None:
        super().__init__(why, remedy)
        self.why, self.remedy, self.exit_status = why, remedy, exit_status

    def __str__(self) -> str:
        return f"{self.why}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Servers:
    """The NATS servers of a cluster by their URLs, and what they are presented."""

    urls: tuple[str, ...]
    login: Login = NOBODY

    def __str__(self) -> str:
        return ", ".join(self.urls)


class NatsConnection:
    """An open connection; ``ended`` is done when it has ended, and says why."""

    def __init__(self, client: Client, url: str) -> None:
        self._client = client
        self.url = url
        """Which server it leads to."""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.jetstream: Any = client.jetstream(timeout=ANSWER_SECONDS)
        self.complaint = ""
        """What the server has refused last, in its words: a subject that these credentials may not use."""
        self._why = "the connection has ended"

    @property
    def is_open(self) -> bool:
        """Tell whether it has not ended."""
        return bool(self._client.is_connected)

    @property
    def servers(self) -> int:
        """Return how many servers of the cluster are known."""
        return len(self._client.servers)

    @property
    def others(self) -> list[str]:
        """Return the addresses of servers that were not named, and of which a server has told."""
        return [server.geturl() for server in self._client.discovered_servers]

    @property
    def release(self) -> tuple[int, int]:
        """Return major and minor number of the server's release."""
        version = self._client.connected_server_version
        return version.major, version.minor

    @property
    def most_bytes(self) -> int:
        """Return how many bytes a message may have there."""
        return int(self._client.max_payload)

    async def publish(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        """Send something; raise an error of NATS' client if it can't be."""
        await self._client.publish(subject, data, headers=headers)

    async def subscribe(self, subject: str, told: Told) -> None:
        """Have what comes for a subject taken, in order and in the loop's thread."""

        async def take(message: Msg) -> None:
            told(message.subject, message.data, message.headers)

        await self._client.subscribe(
            subject, cb=take, pending_msgs_limit=MAX_PENDING_MESSAGES, pending_bytes_limit=MAX_PENDING_BYTES
        )

    async def flush(self) -> None:
        """Return when the server has taken all that was sent; raise an error of NATS' client if it doesn't.

        The client's own flush sends its ping before what waits, so that the answer says nothing of that.
        """
        has_come: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def take(_: Msg) -> None:
            if not has_come.done():
                has_come.set_result(None)

        inbox = self._client.new_inbox()
        echo = await self._client.subscribe(inbox, cb=take)
        await self._client.publish(inbox)
        await asyncio.wait_for(has_come, CONNECT_SECONDS)
        await echo.unsubscribe()

    async def close(self) -> None:
        """End it; what was sent is flushed first."""
        with contextlib.suppress(nats.errors.Error, OSError):
            await self._client.close()

    async def note_error(self, error: Exception) -> None:
        """Take note of an error of the client's: why the connection ends, or of what took a message."""
        if isinstance(error, nats.errors.SlowConsumerError):
            # The receiver finds by the numbers that something is missing.
            return
        if "permissions violation" in str(error).lower():
            self.complaint = error_line(error)
            return
        if isinstance(error, (nats.errors.Error, OSError)):
            self._why = error_line(error)
            return
        logger.error("an error of the broker in a message of another broker", exc_info=error)

    async def note_end(self) -> None:
        """Take note that it has ended."""
        if not self.ended.done():
            self.ended.set_result(self._why)


async def open_connection(servers: Servers, name: str, more: Sequence[str] = ()) -> NatsConnection:
    """Open a connection to one of the servers, in any order. Raise CantJoin, for the last one that was tried.

    ``more`` are addresses of further servers.
    """
    urls = list(dict.fromkeys([*servers.urls, *more]))
    random.shuffle(urls)
    failed = CantJoin(f"--cluster {servers} names no server", "name one")
    for url in urls:
        try:
            return await asyncio.wait_for(_open(url, servers, name), 2 * CONNECT_SECONDS)
        except (nats.errors.Error, OSError) as error:
            failed = _why_not(url, servers, error)
            if failed.exit_status == REFUSED_STATUS:
                break
    raise failed


async def _open(url: str, servers: Servers, name: str) -> NatsConnection:
    client = Client()
    connection: list[NatsConnection] = []
    found: list[Exception] = []

    async def note_error(error: Exception) -> None:
        found.append(error)
        if connection:
            await connection[0].note_error(error)

    async def note_end() -> None:
        if connection:
            await connection[0].note_end()

    options: dict[str, Any] = dict(servers.login.options)
    if url.startswith("tls:"):
        options["tls"] = ssl.create_default_context()
    try:
        await client.connect(
            servers=[url],
            name=f"dbg-broker {name}",
            error_cb=note_error,
            closed_cb=note_end,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_SECONDS,
            ping_interval=PING_SECONDS,
            max_outstanding_pings=MAX_PINGS,
            pending_size=MAX_PENDING_BYTES,
            **options,
        )
    except nats.errors.NoServersError:
        raise (found or [OSError("nobody answers")])[-1] from None
    finally:
        if not client.is_connected:
            # After a failed handshake of TLS the client waits for a close that nobody answers.
            with contextlib.suppress(nats.errors.Error, OSError):
                await asyncio.wait_for(client.close(), CLOSE_SECONDS)
    connection.append(NatsConnection(client, url))
    return connection[0]


WITHOUT_JETSTREAM = frozenset({None, 10039, 10076})
"""JetStream's numbers of the errors that it is not there at all, or not for this account; None if nobody answers."""

REFUSED_STATUS = 5
"""The exit status of a peer that answers and refuses."""


def _why_not(url: str, servers: Servers, error: Exception) -> CantJoin:
    text = str(error).lower()
    if "authorization" in text or "authentication" in text or "user authentication" in text:
        given = "refuses the credentials" if servers.login.options else "asks for credentials"
        return CantJoin(
            f"NATS at {url} {given}", "name a file with those of this cluster by --cluster-credentials", REFUSED_STATUS
        )
    if isinstance(error, ssl.SSLError):
        return CantJoin(
            f"NATS at {url} has a certificate that is not trusted here ({printable(error.reason or str(error))})",
            "set SSL_CERT_FILE to the PEM file of its authority, or write the host as the certificate names it",
        )
    if "tls" in text or "secure" in text:
        return CantJoin(f"NATS at {url} speaks with TLS alone, or without it", "write tls:// or nats:// as it does")
    if "info" in text or "empty response" in text:
        return CantJoin(f"what answers at {url} is not NATS", "look at host and port; NATS listens at 4222")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error_line(error)
    return CantJoin(
        f"nobody answers as NATS at {servers} ({printable(reason)})", "start it, or name where it listens", 4
    )


async def check_server(connection: NatsConnection) -> None:
    """Raise CantJoin if this NATS is too old, or keeps no buckets, and BusDown if it has no leader now."""
    if connection.release < OLDEST:
        release, oldest = (".".join(map(str, numbers)) for numbers in (connection.release, OLDEST))
        raise CantJoin(
            f"NATS at {connection.url} is release {release}, and brokers need {oldest} or newer",
            "install a newer nats-server",
        )
    try:
        await connection.jetstream.account_info()
    except errors.ServiceUnavailableError as error:
        if error.err_code not in WITHOUT_JETSTREAM:
            raise BusDown(error_line(error)) from None
        raise CantJoin(f"NATS at {connection.url} runs without JetStream", "start nats-server with -js") from None
    except (nats.errors.Error, TimeoutError, ValueError) as error:
        raise BusDown(error_line(error)) from None
