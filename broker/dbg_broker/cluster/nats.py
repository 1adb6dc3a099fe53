"""NATS as one broker has it: messages. Only this module imports NATS' client.

NATS delivers at most once. So each message says what is true now, and all is said again after a connection was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.errors import DbgError, error_line, printable

logger = logging.getLogger("dbg_broker")

CONNECT_SECONDS = 3.0
"""Seconds that a server has to take a connection: one on this network takes milliseconds."""

AGAIN_SECONDS = 0.5
"""Seconds between two rounds of dialling the servers."""

MISSED_SECONDS = 2.0
"""Seconds after which all is said and asked anew, once messages were dropped."""

PING_SECONDS = 1.0
MAX_PINGS = 2
"""Seconds between two pings, and how many may be without an answer: a server that is cut off is known after three."""

GRACE_SECONDS = 2.0
"""Seconds without a connection after which NATS counts as gone: one of three has died, and another one is dialled."""

CLOSE_SECONDS = 2.0
"""Seconds that the end of a connection may take."""

MAX_WAITING = 4096
"""Messages that wait for NATS to take them, most of them below 64 KiB; of more all is said again later."""

MAX_PENDING_MESSAGES, MAX_PENDING_BYTES = 65536, 64 * limits.MIB
"""What may have come and not been looked at: 200,000 ranks at once. The rest is dropped, and asked for again."""

REFUSED_STATUS = 5
"""The exit status of a peer that answers and refuses."""

Told = Callable[[str, bytes], None]
"""Takes the last word of a subject, and what has come."""


class CantJoin(DbgError):
    """The others can't be joined: why, and what to do."""

    def __init__(self, why: str, remedy: str, exit_status: int = 1) -> None:
        super().__init__(why, remedy)
        self.why, self.remedy, self.exit_status = why, remedy, exit_status

    def __str__(self) -> str:
        return f"{self.why}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Servers:
    """The NATS servers by their URLs, and what they are presented, as options of NATS' client."""

    urls: tuple[str, ...]
    login: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return ", ".join(self.urls)


class _Client(Client):  # type: ignore[misc]
    """NATS' client, which says no word to a server without TLS where a URL asks for TLS."""

    def __init__(self, *, needs_tls: bool) -> None:
        super().__init__()
        self._needs_tls = needs_tls

    def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> Any:
        # The client itself would go on in plain text, with the password: whoever sits between could ask it to.
        if initial_connection and not info.get("tls_required") and self._needs_tls:
            raise nats.errors.SecureConnWantedError
        return super()._process_info(info, initial_connection)


def _ignored() -> None:
    """Do nothing."""


class Nats:
    """The connection to NATS, which comes back by itself. No call but the coroutines waits."""

    def __init__(self, servers: Servers, name: str, timers: Timers) -> None:
        self.lost_at: float | None = None
        """When the connection was lost, None while there is one."""
        self.is_gone = False
        """Whether it has been lost for longer than a moment."""
        self.is_back: Callable[[], None] = _ignored
        """Called when messages may have been missed: all is to be said and asked anew."""
        self._servers, self._name, self._timers = servers, name, timers
        self._client = _Client(needs_tls=servers.urls[0].startswith("tls:"))
        self._outbox: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(MAX_WAITING)
        self._writing: asyncio.Task[None] | None = None
        self._is_again_due = False
        self._error: Exception | None = None
        """What NATS' client has complained of last."""

    # ------------------------------------------------------------------------------------------------------- messages

    def publish(self, subject: str, data: bytes) -> None:
        """Send something to all who have subscribed; it is dropped while NATS is gone."""
        if self.is_gone:
            return
        try:
            self._outbox.put_nowait((subject, data))
        except asyncio.QueueFull:
            self._say_again()

    async def subscribe(self, subject: str, told: Told) -> None:
        """Have what comes for a subject taken, in order and in the loop's thread. Raise an error of NATS' client."""

        async def take(message: Msg) -> None:
            told(message.subject.rpartition(".")[2], message.data)

        await self._client.subscribe(
            subject, cb=take, pending_msgs_limit=MAX_PENDING_MESSAGES, pending_bytes_limit=MAX_PENDING_BYTES
        )

    # ------------------------------------------------------------------------------------------------------ connection

    async def open(self) -> None:
        """Connect to one of the servers, and stay connected from then on. Raise CantJoin, for the last one tried."""
        try:
            connecting = self._client.connect(
                servers=list(self._servers.urls),
                name=f"dbg-broker {self._name}",
                error_cb=self._note_error,
                disconnected_cb=self._note_loss,
                reconnected_cb=self._note_return,
                max_reconnect_attempts=1,
                reconnect_time_wait=AGAIN_SECONDS,
                connect_timeout=CONNECT_SECONDS,
                ping_interval=PING_SECONDS,
                max_outstanding_pings=MAX_PINGS,
                **self._servers.login,
            )
            # After a failed handshake of TLS the client waits for a close that nobody answers.
            await asyncio.wait_for(connecting, 2 * CONNECT_SECONDS * len(self._servers.urls))
        except (*_ERRORS, ssl.SSLError) as error:
            await self.close()
            raise _why_not(self._servers, self._error or error) from None
        # The first attempts have an end, and later ones have none.
        self._client.options["max_reconnect_attempts"] = -1
        self._writing = asyncio.create_task(self._write())

    async def close(self) -> None:
        """End the connection, after what waits was sent."""
        if self._writing is not None:
            with contextlib.suppress(*_ERRORS):
                await asyncio.wait_for(self._outbox.join(), CLOSE_SECONDS)
            self._writing.cancel()
        with contextlib.suppress(*_ERRORS):
            await asyncio.wait_for(self._client.close(), CLOSE_SECONDS)

    async def _write(self) -> None:
        while True:
            subject, data = await self._outbox.get()
            try:
                await self._client.publish(subject, data)
            except _ERRORS as error:
                logger.info("NATS does not take a message: %s", error_line(error))
            finally:
                self._outbox.task_done()

    async def _note_error(self, error: Exception) -> None:
        self._error = error
        if isinstance(error, nats.errors.SlowConsumerError):
            self._say_again()
        elif not isinstance(error, _ERRORS):
            logger.error("an error of the broker in a message of another broker", exc_info=error)

    def _say_again(self) -> None:
        """Call :attr:`is_back` soon, once for all messages that were dropped."""
        if not self._is_again_due:
            self._is_again_due = True
            self._timers.schedule(MISSED_SECONDS, self._again)

    def _again(self) -> None:
        self._is_again_due = False
        self.is_back()

    async def _note_loss(self) -> None:
        if self.lost_at is None and not self._client.is_closed:
            self.lost_at = lost_at = self._timers.clock()
            self._timers.schedule(GRACE_SECONDS, lambda: self._miss(lost_at))

    def _miss(self, lost_at: float) -> None:
        if self.lost_at == lost_at:
            self.is_gone = True
            logger.warning("NATS has gone: no server of %s answers", self._servers)

    async def _note_return(self) -> None:
        logger.info("NATS answers again at %s", self._client.connected_url.netloc if self._client.connected_url else "")
        self.lost_at, self.is_gone = None, False
        self.is_back()

    def check(self) -> None:
        """Raise CantJoin if NATS has refused what brokers do."""
        if "permissions violation" in str(self._error).lower():
            raise CantJoin(
                f"NATS at {self._servers} does not allow what brokers do ({printable(str(self._error))})",
                "give these credentials the subjects dbg_broker.>",
            )


_ERRORS = (nats.errors.Error, OSError, TimeoutError, ValueError, KeyError)
"""What calls of NATS' client raise."""


def _why_not(servers: Servers, error: Exception) -> CantJoin:
    text = str(error).lower()
    if "authorization" in text or "authentication" in text:
        given = "refuses the credentials" if servers.login else "asks for credentials"
        return CantJoin(
            f"NATS at {servers} {given}",
            "name a file with those of this cluster by --cluster-credentials",
            REFUSED_STATUS,
        )
    if isinstance(error, ssl.SSLError):
        return CantJoin(
            f"NATS at {servers} has a certificate that is not trusted here ({printable(error.reason or str(error))})",
            "set SSL_CERT_FILE to the PEM file of its authority, or write the host as the certificate names it",
        )
    if "tls" in text or "secure" in text:
        return CantJoin(f"NATS at {servers} speaks with TLS alone, or without it", "write tls:// or nats:// as it does")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error_line(error)
    return CantJoin(
        f"nobody answers as NATS at {servers} ({printable(reason)})",
        "start it, or name where it listens; that is port 4222",
        4,
    )
