"""NATS as one broker has it: messages, and two buckets of JetStream. Only this module imports NATS' client.

NATS delivers at most once. So each message says what is true now, and all is said again after a connection was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import random
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import api, errors

from dbg_broker.cluster.login import NOBODY, Login
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.errors import DbgError, error_line, printable

logger = logging.getLogger("dbg_broker")

T = TypeVar("T")

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

TEND_SECONDS = 30.0
"""Seconds after which it is looked again whether the buckets are on as many servers as there are."""

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

PRESENCE_SECONDS = 10.0
"""Seconds after which a heartbeat expires: more than a broker may be silent."""

OPERATION = "KV-Operation"
"""Header that marks the removal of a key."""

WRONG_REVISION = 10071
"""JetStream's number of the error for a write with an old revision."""

WITHOUT_JETSTREAM = frozenset({None, 10039, 10076})
"""JetStream's numbers of the errors that it is not there at all, or not for this account; None if nobody answers."""

REFUSED_STATUS = 5
"""The exit status of a peer that answers and refuses."""

Told = Callable[[str, "bytes | None"], None]
"""Takes the last word of a subject, and what has come; None if a key was removed."""


class Bucket(enum.Enum):
    """A bucket: keys and values in the servers' memory."""

    BROKERS = "dbg_broker_brokers"
    """Who is there; what it holds expires."""
    TOKENS = "dbg_broker_tokens"
    """Issued and revoked tokens, by their digests."""

    @property
    def stream(self) -> str:
        """Return the name of its stream."""
        return f"KV_{self.value}"

    def subject(self, key: str) -> str:
        """Return the subject of a key, ``*`` for all."""
        return f"$KV.{self.value}.{key}"


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
    """What a bucket holds for a key; a revision grows with each write."""

    value: bytes
    revision: int


class Tasks:
    """Tasks that nobody waits for: kept until they are done, and cancelled together."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done in the running loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    def cancel(self) -> asyncio.Future[list[Any]]:
        """Cancel all; what is returned is done when they have ended."""
        for task in self._open:
            task.cancel()
        return asyncio.gather(*self._open, return_exceptions=True)


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
        self._new_client()
        self._outbox: asyncio.Queue[tuple[str, bytes, dict[str, str] | None]] = asyncio.Queue(MAX_WAITING)
        self._complaint: Exception | None = None
        self._tasks = Tasks()

    # ------------------------------------------------------------------------------------------------------- messages

    def publish(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        """Send something to all who have subscribed; it is dropped while NATS is gone."""
        if self.is_gone:
            return
        try:
            self._outbox.put_nowait((subject, data, headers))
        except asyncio.QueueFull:
            self._timers.schedule(ANSWER_SECONDS, self.is_back)

    def announce(self, bucket: Bucket, key: str, value: bytes | None) -> None:
        """Write a value into a bucket, or remove the key, for those who watch; nobody waits until it is kept."""
        self.publish(bucket.subject(key), value or b"", {OPERATION: "DEL"} if value is None else None)

    async def subscribe(self, subject: str, told: Told) -> None:
        """Have what comes for a subject taken, in order and in the loop's thread. Raise an error of NATS' client."""

        async def take(message: Msg) -> None:
            is_removed = bool(message.headers and OPERATION in message.headers)
            told(message.subject.rpartition(".")[2], None if is_removed else message.data)

        await self._client.subscribe(
            subject, cb=take, pending_msgs_limit=MAX_PENDING_MESSAGES, pending_bytes_limit=MAX_PENDING_BYTES
        )

    # --------------------------------------------------------------------------------------------------------- buckets

    async def read(self, bucket: Bucket, key: str) -> Entry | None:
        """Return what a bucket has for a key. Raise NatsDown."""
        try:
            found = await self._jetstream.get_msg(bucket.stream, subject=bucket.subject(key))
        except errors.NotFoundError:
            return None
        except _ERRORS as error:
            raise NatsDown(error_line(error)) from None
        is_removed = found.headers and OPERATION in found.headers
        return None if is_removed else Entry(found.data or b"", found.seq)

    async def write(self, bucket: Bucket, key: str, value: bytes, last: int) -> None:
        """Write a value to a key that has the revision ``last``, 0 for none. Raise Conflict or NatsDown."""
        headers = {api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(last)}
        try:
            await self._jetstream.publish(bucket.subject(key), value, headers=headers)
        except errors.APIError as error:
            if error.err_code == WRONG_REVISION:
                raise Conflict from None
            raise NatsDown(error_line(error)) from None
        except _ERRORS as error:
            raise NatsDown(error_line(error)) from None

    async def entries(self, bucket: Bucket) -> list[Entry]:
        """Return all that a small bucket holds. Raise NatsDown."""
        info = await _answer(self._jetstream.stream_info(bucket.stream, subjects_filter=bucket.subject("*")))
        begin = len(bucket.subject(""))
        found = [await self.read(bucket, subject[begin:]) for subject in info.state.subjects or ()]
        return [entry for entry in found if entry is not None]

    async def make_buckets(self) -> None:
        """Make the buckets that are missing, and spread those that are on too few servers. Raise NatsDown."""
        replicas = MAX_REPLICAS if len(self._client.servers) >= MAX_REPLICAS else 1
        for bucket in Bucket:
            try:
                info = await self._jetstream.stream_info(bucket.stream)
            except errors.NotFoundError:
                await self._new_stream(bucket, replicas)
                continue
            except _ERRORS as error:
                raise NatsDown(error_line(error)) from None
            if (info.config.num_replicas or 1) < replicas:
                # It stays where it is until more servers can take it.
                with contextlib.suppress(*_ERRORS):
                    await self._jetstream.update_stream(_stream(bucket, replicas))

    async def _new_stream(self, bucket: Bucket, replicas: int) -> None:
        try:
            await self._jetstream.add_stream(_stream(bucket, replicas))
        except _ERRORS as error:
            if replicas == 1 or isinstance(error, errors.ServiceUnavailableError):
                raise NatsDown(error_line(error)) from None
            # The other servers are not there now.
            await _answer(self._jetstream.add_stream(_stream(bucket, 1)))

    # ------------------------------------------------------------------------------------------------------ connection

    async def open(self) -> None:
        """Connect to one of the servers, and stay connected. Raise CantJoin."""
        await self._connect(self._servers.urls, CONNECT_SECONDS * (1 + len(self._servers.urls)), stays=True)

    async def open_once(self) -> None:
        """Connect to one of the servers, in any order. Raise CantJoin, for the last one that was tried."""
        urls = list(self._servers.urls)
        random.shuffle(urls)
        for url in urls:
            try:
                await self._connect((url,), 2 * CONNECT_SECONDS, stays=False)
            except CantJoin as error:
                if url == urls[-1] or error.exit_status == REFUSED_STATUS:
                    raise
                self._new_client()
            else:
                return

    def _new_client(self) -> None:
        self._client = Client()
        self._jetstream: Any = self._client.jetstream(timeout=ANSWER_SECONDS)

    async def _connect(self, urls: tuple[str, ...], seconds: float, *, stays: bool) -> None:
        failures: list[Exception] = []

        async def note_error(error: Exception) -> None:
            failures.append(error)
            del failures[:-1]
            self._note_error(error)

        options: dict[str, Any] = dict(self._servers.login.options)
        if urls[0].startswith("tls:"):
            options["tls"] = ssl.create_default_context()
        try:
            await asyncio.wait_for(
                self._client.connect(
                    servers=list(urls),
                    name=f"dbg-broker {self._name}",
                    error_cb=note_error,
                    disconnected_cb=self._note_loss,
                    reconnected_cb=self._note_return,
                    allow_reconnect=stays,
                    max_reconnect_attempts=-1 if stays else 1,
                    reconnect_time_wait=AGAIN_SECONDS,
                    connect_timeout=CONNECT_SECONDS,
                    ping_interval=PING_SECONDS,
                    max_outstanding_pings=MAX_PINGS,
                    pending_size=MAX_PENDING_BYTES,
                    **options,
                ),
                seconds,
            )
        except (*_ERRORS, ssl.SSLError) as error:
            await self.close()
            raise _why_not(", ".join(urls), self._servers.login, failures[-1] if failures else error) from None

    async def close(self) -> None:
        """End the connection, after what waits was sent."""
        if self._client.is_connected:
            with contextlib.suppress(*_ERRORS):
                await asyncio.wait_for(self._drain(), CLOSE_SECONDS)
        await self._tasks.cancel()
        with contextlib.suppress(*_ERRORS):
            await asyncio.wait_for(self._client.close(), CLOSE_SECONDS)

    async def _drain(self) -> None:
        while not self._outbox.empty():
            await self._client.publish(*_as_arguments(self._outbox.get_nowait()))
        await self._client.flush()

    def begin(self) -> None:
        """Send what waits from now on, and have the buckets there."""
        self._tasks.begin(self._write())
        self._tasks.begin(self._tend())

    async def _write(self) -> None:
        while True:
            said = await self._outbox.get()
            try:
                await self._client.publish(*_as_arguments(said))
            except _ERRORS as error:
                logger.info("NATS does not take a message: %s", error_line(error))

    async def _tend(self) -> None:
        while True:
            try:
                await self.make_buckets()
            except NatsDown as error:
                logger.info("the buckets are not ready: %s", printable(error.why))
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                await asyncio.sleep(TEND_SECONDS)

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
        self._tasks.begin(self._return())

    async def _return(self) -> None:
        """Have the buckets there again before all is said anew: NATS may have come back empty."""
        while self.lost_at is None:
            try:
                await self.make_buckets()
            except NatsDown:
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                self.is_back()
                return

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
            await self.make_buckets()
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


def _as_arguments(said: tuple[str, bytes, dict[str, str] | None]) -> tuple[Any, ...]:
    subject, data, headers = said
    return subject, data, "", headers


async def _answer(asked: Awaitable[T]) -> T:
    """Return what NATS answers. Raise NatsDown."""
    try:
        return await asked
    except _ERRORS as error:
        raise NatsDown(error_line(error)) from None


def _stream(bucket: Bucket, replicas: int) -> api.StreamConfig:
    """Return a stream as NATS' own tools take it for a bucket of keys and values."""
    expires = PRESENCE_SECONDS if bucket is Bucket.BROKERS else None
    return api.StreamConfig(
        name=bucket.stream,
        subjects=[bucket.subject(">")],
        storage=api.StorageType.MEMORY,
        num_replicas=replicas,
        max_msgs_per_subject=1,
        max_age=expires,
        duplicate_window=expires or 120.0,
        discard=api.DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        deny_delete=True,
    )


def _why_not(servers: str, login: Login, error: Exception) -> CantJoin:
    text = str(error).lower()
    if "authorization" in text or "authentication" in text:
        given = "refuses the credentials" if login.options else "asks for credentials"
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
