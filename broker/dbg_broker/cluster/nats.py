"""NATS as one broker has it: messages, and one key of JetStream. Only this module imports NATS' client.

NATS delivers at most once. So each message says what is true now, and all is said again after a connection was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import api, errors
from nats.js.kv import KeyValue

from dbg_broker.cluster.login import NOBODY, Login
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.errors import DbgError, error_line, printable

logger = logging.getLogger("dbg_broker")

CONNECT_SECONDS = 3.0
"""Seconds that a server has to take a connection: one on this network takes milliseconds."""

AGAIN_SECONDS = 0.5
"""Seconds between two rounds of dialling the servers."""

ANSWER_SECONDS = 2.0
"""Seconds that JetStream has for an answer; without a leader it gives none."""

PING_SECONDS = 1.0
MAX_PINGS = 2
"""Seconds between two pings, and how many may be without an answer: a server that is cut off is known after three."""

GRACE_SECONDS = 2.0
"""Seconds without a connection after which NATS counts as gone: one of three has died, and another one is dialled."""

CLOSE_SECONDS = 2.0
"""Seconds that the end of a connection may take."""

OLDEST = (2, 9)
"""The first release of NATS that is known to work: Debian 12 has it."""

MAX_WAITING = 4096
"""Messages that wait for NATS to take them, 64 KiB each at most; of more all is said again later."""

MAX_PENDING_MESSAGES, MAX_PENDING_BYTES = 65536, 64 * limits.MIB
"""What may have come and not been looked at: 200,000 ranks at once. The rest is dropped, and asked for again."""

MAX_REPLICAS = 3
"""Servers that hold a bucket, if there are so many: one of them may die."""

WITHOUT_JETSTREAM = frozenset({None, 10039, 10076})
"""JetStream's numbers of the errors that it is not there at all, or not for this account; None if nobody answers."""

REFUSED_STATUS = 5
"""The exit status of a peer that answers and refuses."""

BUCKET, KEY = "dbg_broker_tokens", "issued"
"""The bucket, and its key, for issued and revoked tokens by their digests."""

STREAM, SUBJECT = f"KV_{BUCKET}", f"$KV.{BUCKET}.{KEY}"
"""What JetStream calls these."""

Told = Callable[[str, bytes], None]
"""Takes the last word of a subject, and what has come."""


class CantJoin(DbgError):
    """The others can't be joined: why, and what to do."""

    def __init__(self, why: str, remedy: str, exit_status: int = 1) -> None:
        super().__init__(why, remedy)
        self.why, self.remedy, self.exit_status = why, remedy, exit_status

    def __str__(self) -> str:
        return f"{self.why}; {self.remedy}"


class NatsDown(DbgError):
    """NATS, or what it keeps, can't be reached now; ``why`` says so in NATS' words."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"NATS does not answer ({printable(self.why)})"


class Conflict(Exception):
    """A write with an old revision."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The NATS servers by their URLs, and what they are presented."""

    urls: tuple[str, ...]
    login: Login = NOBODY

    def __str__(self) -> str:
        return ", ".join(self.urls)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a key has; the revision grows with each write."""

    value: bytes
    revision: int


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
        self._client = Client()
        self._jetstream = self._client.jetstream(timeout=ANSWER_SECONDS)
        self._outbox: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(MAX_WAITING)
        self._writing: asyncio.Task[None] | None = None
        self._complaint: Exception | None = None

    # ------------------------------------------------------------------------------------------------------- messages

    def publish(self, subject: str, data: bytes) -> None:
        """Send something to all who have subscribed; it is dropped while NATS is gone."""
        if self.is_gone:
            return
        try:
            self._outbox.put_nowait((subject, data))
        except asyncio.QueueFull:
            self._timers.schedule(ANSWER_SECONDS, self.is_back)

    async def subscribe(self, subject: str, told: Told) -> None:
        """Have what comes for a subject taken, in order and in the loop's thread. Raise an error of NATS' client."""

        async def take(message: Msg) -> None:
            told(message.subject.rpartition(".")[2], message.data)

        await self._client.subscribe(
            subject, cb=take, pending_msgs_limit=MAX_PENDING_MESSAGES, pending_bytes_limit=MAX_PENDING_BYTES
        )

    # ------------------------------------------------------------------------------------------------------------- key

    async def read(self) -> Entry | None:
        """Return what the key has; None if it has nothing. Raise NatsDown."""
        try:
            found = await (await self._bucket()).get(KEY)
        except errors.KeyNotFoundError:
            return None
        except _ERRORS as error:
            raise NatsDown(error_line(error)) from None
        return Entry(found.value or b"", found.revision or 0)

    async def write(self, value: bytes, last: int) -> None:
        """Write a value to the key, which has the revision ``last``, 0 for none. Raise Conflict or NatsDown."""
        try:
            await (await self._bucket()).update(KEY, value, last=last)
        except errors.KeyWrongLastSequenceError:
            raise Conflict from None
        except _ERRORS as error:
            raise NatsDown(error_line(error)) from None

    async def _bucket(self) -> KeyValue:
        """Return the bucket; it is made if it is not there, and spread if it is on too few servers."""
        replicas = MAX_REPLICAS if len(self._client.servers) >= MAX_REPLICAS else 1
        try:
            config = (await self._jetstream.stream_info(STREAM)).config
        except errors.NotFoundError:
            return await self._new_bucket(replicas)
        if (config.num_replicas or 1) < replicas:
            # It stays where it is until more servers can take it.
            with contextlib.suppress(*_ERRORS):
                await self._jetstream.update_stream(config.evolve(num_replicas=replicas))
        return await self._jetstream.key_value(BUCKET)

    async def _new_bucket(self, replicas: int) -> KeyValue:
        config = api.KeyValueConfig(bucket=BUCKET, storage=api.StorageType.MEMORY, replicas=replicas)
        try:
            return await self._jetstream.create_key_value(config)
        except errors.APIError as error:
            if replicas == 1 or isinstance(error, errors.ServiceUnavailableError):
                raise
        # The other servers are not there now.
        config.replicas = 1
        return await self._jetstream.create_key_value(config)

    # ------------------------------------------------------------------------------------------------------ connection

    async def open(self) -> None:
        """Connect to one of the servers, and stay connected from then on. Raise CantJoin, for the last one tried."""
        failures: list[Exception] = []

        async def note_error(error: Exception) -> None:
            failures.append(error)
            del failures[:-1]
            self._note_error(error)

        options: dict[str, Any] = dict(self._servers.login.options)
        if self._servers.urls[0].startswith("tls:"):
            options["tls"] = ssl.create_default_context()
        try:
            connecting = self._client.connect(
                servers=list(self._servers.urls),
                name=f"dbg-broker {self._name}",
                error_cb=note_error,
                disconnected_cb=self._note_loss,
                reconnected_cb=self._note_return,
                max_reconnect_attempts=1,
                reconnect_time_wait=AGAIN_SECONDS,
                connect_timeout=CONNECT_SECONDS,
                ping_interval=PING_SECONDS,
                max_outstanding_pings=MAX_PINGS,
                pending_size=MAX_PENDING_BYTES,
                **options,
            )
            # After a failed handshake of TLS the client waits for a close that nobody answers.
            await asyncio.wait_for(connecting, 2 * CONNECT_SECONDS * len(self._servers.urls))
        except (*_ERRORS, ssl.SSLError) as error:
            await self.close()
            raise _why_not(self._servers, failures[-1] if failures else error) from None
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

    def _note_error(self, error: Exception) -> None:
        if isinstance(error, nats.errors.SlowConsumerError):
            self._timers.schedule(ANSWER_SECONDS, self.is_back)
        elif "permissions violation" in str(error).lower():
            self._complaint = error
        elif not isinstance(error, _ERRORS):
            logger.error("an error of the broker in a message of another broker", exc_info=error)

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

    # ----------------------------------------------------------------------------------------------------------- checks

    async def why_not_ready(self) -> str | None:
        """Return why NATS keeps nothing now, None if it does. Raise CantJoin if it never will."""
        where = self._servers
        version = self._client.connected_server_version
        if (version.major, version.minor) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise CantJoin(
                f"NATS at {where} is release {version.major}.{version.minor}, and brokers need {oldest} or newer",
                "install a newer nats-server",
            )
        try:
            await self._jetstream.account_info()
            await self.read()
        except errors.ServiceUnavailableError as error:
            if error.err_code in WITHOUT_JETSTREAM:
                raise CantJoin(f"NATS at {where} runs without JetStream", "start nats-server with -js") from None
            return error_line(error)
        except (*_ERRORS, NatsDown) as error:
            if self._complaint is not None:
                raise CantJoin(
                    f"NATS at {where} does not allow what brokers do ({error_line(self._complaint)})",
                    "give these credentials the subjects dbg_broker.>, $KV.>, $JS.API.> and _INBOX.>",
                ) from None
            return error.why if isinstance(error, NatsDown) else error_line(error)
        return None


_ERRORS = (nats.errors.Error, OSError, TimeoutError, ValueError, KeyError)
"""What calls of NATS' client raise."""


def _why_not(servers: Servers, error: Exception) -> CantJoin:
    text = str(error).lower()
    if "authorization" in text or "authentication" in text:
        given = "refuses the credentials" if servers.login.options else "asks for credentials"
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
    if "info" in text or "empty response" in text:
        return CantJoin(f"what answers at {servers} is not NATS", "look at host and port; NATS listens at 4222")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error_line(error)
    return CantJoin(
        f"nobody answers as NATS at {servers} ({printable(reason)})", "start it, or name where it listens", 4
    )
