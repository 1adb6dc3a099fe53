"""Messages of one broker over NATS. Only this module imports NATS' client.

NATS delivers at most once. So each message describes the current state, and all messages are sent again after a
connection was lost.
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
"""Timeout for connecting to a server, in seconds: a server on this network takes milliseconds."""

AGAIN_SECONDS = 0.5
"""Pause between two rounds of connection attempts to the servers, in seconds."""

MISSED_SECONDS = 2.0
"""Delay after dropped messages, in seconds, before everything is sent and requested again."""

PING_SECONDS = 1.0
MAX_PINGS = 2
"""Interval between two pings, in seconds, and maximum number of unanswered pings: a lost server is detected after three
seconds.
"""

GRACE_SECONDS = 2.0
"""Grace time without a connection, in seconds: if one of three servers dies, the client connects to another one."""

CLOSE_SECONDS = 2.0
"""Timeout for closing a connection, in seconds."""

MAX_WAITING = 4096
"""Maximum number of messages that wait to be sent, most of them below 64 KiB. If there are more, they are dropped, and
everything is sent again later.
"""

MAX_PENDING_MESSAGES, MAX_PENDING_BYTES = 65536, 64 * limits.MIB
"""Limits of the messages that were received and not handled yet: enough for news of 200,000 ranks at once. Further
messages are dropped and requested again.
"""

REFUSED_STATUS = 5
"""Exit status if a peer answers and refuses the connection."""

OnMessage = Callable[[str, bytes], None]
"""Function that handles a message. It gets the sender's name, which is the last part of the subject, and the data."""


class CantJoin(DbgError):
    """Raised if this broker can't join the others; ``why`` is the reason, and ``remedy`` what to do."""

    def __init__(self, why: str, remedy: str, exit_status: int = 1) -> None:
        super().__init__(why, remedy)
        self.why, self.remedy, self.exit_status = why, remedy, exit_status

    def __str__(self) -> str:
        return f"{self.why}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Servers:
    """The NATS servers by their URLs, and the credentials for them as options of NATS' client."""

    urls: tuple[str, ...]
    login: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return ", ".join(self.urls)


class _Client(Client):  # type: ignore[misc]
    """NATS' client, changed to send nothing to a server without TLS if the URL asks for TLS."""

    def __init__(self, *, needs_tls: bool) -> None:
        super().__init__()
        self._needs_tls = needs_tls

    def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> Any:
        # If a server says that it has no TLS, NATS' client would continue in plain text and send the password. An
        # attacker could pretend to be such a server.
        if initial_connection and not info.get("tls_required") and self._needs_tls:
            raise nats.errors.SecureConnWantedError
        return super()._process_info(info, initial_connection)


def _ignored() -> None:
    """Do nothing."""


class Nats:
    """The connection to NATS, which reconnects by itself. Only the coroutines block."""

    def __init__(self, servers: Servers, name: str, timers: Timers) -> None:
        self.lost_at: float | None = None
        """Time when the connection was lost, or None while it is up."""
        self.is_gone = False
        """Whether the connection has been lost for longer than GRACE_SECONDS."""
        self.is_back: Callable[[], None] = _ignored
        """Called when messages may have been lost: everything must be sent and requested again."""
        self._servers, self._name, self._timers = servers, name, timers
        self._client = _Client(needs_tls=servers.urls[0].startswith("tls:"))
        self._outbox: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(MAX_WAITING)
        self._writing: asyncio.Task[None] | None = None
        self._is_again_due = False
        self._error: Exception | None = None
        """Last error that NATS' client reported."""

    # ------------------------------------------------------------------------------------------------------- messages

    def publish(self, subject: str, data: bytes) -> None:
        """Send data to all subscribers of a subject. Drop the data while NATS is gone."""
        if self.is_gone:
            return
        try:
            self._outbox.put_nowait((subject, data))
        except asyncio.QueueFull:
            self._publish_again()

    async def subscribe(self, subject: str, on_message: OnMessage) -> None:
        """Call ``on_message`` with each message for a subject, in order, in the loop's thread.

        Raise an error of NATS' client.
        """

        async def take(message: Msg) -> None:
            on_message(message.subject.rpartition(".")[2], message.data)

        await self._client.subscribe(
            subject, cb=take, pending_msgs_limit=MAX_PENDING_MESSAGES, pending_bytes_limit=MAX_PENDING_BYTES
        )

    # ------------------------------------------------------------------------------------------------------ connection

    async def open(self) -> None:
        """Connect to one of the servers, and reconnect from then on. Raise CantJoin for the last server tried."""
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
            # The time is limited, because after a failed TLS handshake the client waits for a close that never arrives.
            await asyncio.wait_for(connecting, 2 * CONNECT_SECONDS * len(self._servers.urls))
        except (*_ERRORS, ssl.SSLError) as error:
            await self.close()
            raise _why_not(self._servers, self._error or error) from None
        # Now that the first connection is made, the number of attempts to reconnect is unlimited.
        self._client.options["max_reconnect_attempts"] = -1
        self._writing = asyncio.create_task(self._write())

    async def close(self) -> None:
        """Send the waiting messages, then close the connection."""
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
                logger.info("NATS: can't send a message: %s", error_line(error))
            finally:
                self._outbox.task_done()

    async def _note_error(self, error: Exception) -> None:
        self._error = error
        if isinstance(error, nats.errors.SlowConsumerError):
            self._publish_again()
        elif not isinstance(error, _ERRORS):
            logger.error("internal error while handling a message of another broker", exc_info=error)

    def _publish_again(self) -> None:
        """Schedule one call of :attr:`is_back` for all messages that were dropped."""
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
            logger.warning("NATS: disconnected; none of these servers answers: %s", self._servers)

    async def _note_return(self) -> None:
        logger.info("NATS: reconnected to %s", self._client.connected_url.netloc if self._client.connected_url else "")
        self.lost_at, self.is_gone = None, False
        self.is_back()

    def check(self) -> None:
        """Raise CantJoin if NATS has denied the broker a permission."""
        if "permissions violation" in str(self._error).lower():
            raise CantJoin(
                f"NATS at {self._servers} denies what brokers need ({printable(str(self._error))})",
                "allow these credentials the subjects dbg_broker.>",
            )


_ERRORS = (nats.errors.Error, OSError, TimeoutError, ValueError, KeyError)
"""Errors that calls of NATS' client raise."""


def _why_not(servers: Servers, error: Exception) -> CantJoin:
    text = str(error).lower()
    if "authorization" in text or "authentication" in text:
        given = "refuses the credentials" if servers.login else "asks for credentials"
        return CantJoin(
            f"NATS at {servers} {given}",
            "give a file with the credentials of this cluster to --cluster-credentials",
            REFUSED_STATUS,
        )
    if isinstance(error, ssl.SSLError):
        return CantJoin(
            f"the certificate of NATS at {servers} is not trusted here ({printable(error.reason or str(error))})",
            "set SSL_CERT_FILE to the PEM file of its authority, or use the host name in the certificate",
        )
    if "tls" in text or "secure" in text:
        return CantJoin(f"NATS at {servers} uses TLS and the URL does not, or vice versa", "try tls:// or nats://")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error_line(error)
    return CantJoin(
        f"no NATS server answers at {servers} ({printable(reason)})",
        "start it, or correct --cluster; NATS listens on port 4222 by default",
        4,
    )
