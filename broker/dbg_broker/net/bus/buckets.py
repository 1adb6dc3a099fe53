"""Buckets: keys and values that all brokers of a cluster share, as streams of JetStream in the servers' memory.

A revision is a number of the stream and grows over all its keys, also after a key was forgotten, so that it is good as
a fencing token. Reads go to the stream's leader: what another server has may be old.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import nats.errors
from nats.js import api, errors

from dbg_wire.errors import DbgError, error_line, printable

if TYPE_CHECKING:
    from dbg_broker.net.bus.connection import NatsConnection

logger = logging.getLogger("dbg_broker")

T = TypeVar("T")

ANSWER_SECONDS = 2.0
"""Seconds that JetStream has for an answer; without a leader it gives none."""

PRESENCE_SECONDS = 10.0
"""Seconds after which a heartbeat expires: more than a broker may be silent."""

CLAIM_SECONDS = 48 * 3600.0
"""Seconds after which a claim expires; brokers renew theirs some times a day, and one may be suspended for a night."""

MAX_REPLICAS = 3
"""Servers that hold a bucket, if there are so many: one of them may die."""

OPERATION = "KV-Operation"
"""Header that marks the removal of a key."""

WRONG_REVISION = 10071
"""JetStream's number of the error for a write with an old revision."""

Changed = Callable[[str, "bytes | None"], None]
"""Takes a key and the value written to it, None if it was removed."""


class BucketName(enum.Enum):
    """A bucket."""

    RANKS = "dbg_broker_ranks"
    """Who owns which rank."""
    BROKERS = "dbg_broker_brokers"
    """Who is there; what it holds expires."""
    TOKENS = "dbg_broker_tokens"
    """Issued and revoked tokens, by their digests."""

    @property
    def stream(self) -> str:
        """Return the name of its stream."""
        return f"KV_{self.value}"

    def subject(self, key: str) -> str:
        """Return the subject of a key, ``>`` for all."""
        return f"$KV.{self.value}.{key}"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a bucket holds for a key."""

    value: bytes
    revision: int


class Conflict(DbgError):
    """A write with an old revision; ``entry`` is what the bucket holds, None if the key is not there."""

    def __init__(self, entry: Entry | None) -> None:
        super().__init__(entry)
        self.entry = entry

    def __str__(self) -> str:
        return "another broker has written this key"


class BusDown(DbgError):
    """NATS, or what it keeps, can't be reached now; ``why`` says so in NATS' words."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"NATS does not answer ({printable(self.why)})"


class Buckets:
    """The buckets as one broker has them. A call that fails with BusDown may have been carried out or not."""

    def __init__(self) -> None:
        self.connection: NatsConnection | None = None
        """What they are reached by, None without one."""
        self._watches: list[tuple[BucketName, str, Changed]] = []
        self._ready: set[BucketName] = set()
        self._making = asyncio.Lock()

    # ----------------------------------------------------------------------------------------------------- operations

    async def read(self, bucket: BucketName, key: str) -> Entry | None:
        """Return what a bucket has for a key. Raise BusDown."""
        js = await self._jetstream(bucket)
        return await _answer(_read(js, bucket, key))

    async def write(self, bucket: BucketName, key: str, value: bytes, last: int | None = None) -> int:
        """Write a value and return its revision.

        With ``last`` the key must have this revision, 0 for none. Raise Conflict if it has another one, and BusDown.
        """
        js = await self._jetstream(bucket)
        headers = None if last is None else {api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(last)}
        try:
            done = await _answer(js.publish(bucket.subject(key), value, headers=headers))
        except errors.APIError as error:
            if error.err_code != WRONG_REVISION:
                raise BusDown(error_line(error)) from None
        else:
            revision: int = done.seq
            return revision
        raise Conflict(await self.read(bucket, key))

    async def forget(self, bucket: BucketName, key: str, revision: int) -> None:
        """Take what a key had up to a revision out of the bucket; nobody is told. Raise BusDown."""
        js = await self._jetstream(bucket)
        await _answer(js.purge_stream(bucket.stream, seq=revision + 1, subject=bucket.subject(key)))

    async def entries(self, bucket: BucketName) -> dict[str, Entry]:
        """Return all that a small bucket holds. Raise BusDown."""
        js = await self._jetstream(bucket)
        info = await _answer(js.stream_info(bucket.stream, subjects_filter=bucket.subject(">")))
        begin = len(bucket.subject(""))
        keys = [subject[begin:] for subject in info.state.subjects or ()]
        found = await asyncio.gather(*(self.read(bucket, key) for key in keys))
        return {key: entry for key, entry in zip(keys, found, strict=True) if entry is not None}

    def watch(self, bucket: BucketName, key: str, changed: Changed) -> None:
        """Have each change of a key told, of all keys for ``*``, from the next connection on; the own ones, too.

        It is a hint: writes that the bucket refuses are told as well, and nothing of what happens while NATS is gone.
        """
        self._watches.append((bucket, key, changed))

    # ----------------------------------------------------------------------------------------------------- connection

    async def use(self, connection: NatsConnection | None) -> None:
        """Go on with another connection, None for none. Raise BusDown if what is watched can't be subscribed to."""
        self.connection = connection
        self._ready.clear()
        if connection is not None:
            for bucket, key, changed in self._watches:
                await _answer(_watch(connection, bucket, key, changed))

    async def make(self) -> None:
        """Make the buckets that are missing, and spread those that are on too few servers. Raise BusDown."""
        self._ready.clear()
        for bucket in BucketName:
            await self._jetstream(bucket)

    async def _jetstream(self, bucket: BucketName) -> Any:
        connection = self.connection
        if connection is None:
            raise BusDown("there is no connection")
        if bucket not in self._ready:
            async with self._making:
                if bucket not in self._ready:
                    await _make(connection, bucket)
                    self._ready.add(bucket)
        return connection.jetstream


async def _answer(asked: Awaitable[T]) -> T:
    """Return what NATS answers. Raise BusDown, but for an error of JetStream that says what is wrong with a write."""
    try:
        return await asked
    except errors.APIError as error:
        if error.err_code == WRONG_REVISION:
            raise
        raise BusDown(error_line(error)) from None
    except (nats.errors.Error, OSError, ValueError, KeyError) as error:
        raise BusDown(error_line(error)) from None


async def _read(js: Any, bucket: BucketName, key: str) -> Entry | None:
    try:
        found = await js.get_msg(bucket.stream, subject=bucket.subject(key))
    except errors.NotFoundError:
        return None
    if found.headers and OPERATION in found.headers:
        return None
    return Entry(found.data or b"", found.seq)


async def _watch(connection: NatsConnection, bucket: BucketName, key: str, changed: Changed) -> None:
    begin = len(bucket.subject(""))

    def told(subject: str, value: bytes, headers: dict[str, str] | None) -> None:
        changed(subject[begin:], None if headers and OPERATION in headers else value)

    await connection.subscribe(bucket.subject(key), told)


# ------------------------------------------------------------------------------------------------------------- streams


EXPIRES = {BucketName.BROKERS: PRESENCE_SECONDS, BucketName.RANKS: CLAIM_SECONDS}
"""Seconds after which what a bucket holds expires; it doesn't in others."""


def _stream(bucket: BucketName, replicas: int) -> api.StreamConfig:
    """Return a stream as NATS' own tools take it for a bucket of keys and values."""
    expires = EXPIRES.get(bucket)
    return api.StreamConfig(
        name=bucket.stream,
        subjects=[bucket.subject(">")],
        storage=api.StorageType.MEMORY,
        num_replicas=replicas,
        max_msgs_per_subject=1,
        max_age=expires,
        duplicate_window=min(expires or 120.0, 120.0),
        discard=api.DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        deny_delete=True,
    )


async def _make(connection: NatsConnection, bucket: BucketName) -> None:
    """Have a bucket there. Raise BusDown."""
    js, wanted = connection.jetstream, MAX_REPLICAS if connection.servers >= MAX_REPLICAS else 1
    try:
        info = await js.stream_info(bucket.stream)
    except errors.NotFoundError:
        await _answer(_new_stream(js, bucket, wanted))
        return
    except (nats.errors.Error, OSError, ValueError, KeyError) as error:
        raise BusDown(error_line(error)) from None
    if (info.config.num_replicas or 1) < wanted:
        try:
            await js.update_stream(_stream(bucket, wanted))
        except (nats.errors.Error, TimeoutError) as error:
            logger.info("the bucket %s stays on fewer servers: %s", bucket.value, error_line(error))


async def _new_stream(js: Any, bucket: BucketName, replicas: int) -> None:
    """Make a bucket's stream; on one server if the others are not there now."""
    try:
        await js.add_stream(_stream(bucket, replicas))
    except errors.APIError as error:
        if replicas == 1 or isinstance(error, errors.ServiceUnavailableError):
            raise
        logger.info("the bucket %s is on one server: %s", bucket.value, error_line(error))
        await js.add_stream(_stream(bucket, 1))
