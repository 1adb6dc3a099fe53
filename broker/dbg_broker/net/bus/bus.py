"""Bus between brokers: messages from one to another over NATS, in order and at most once, and what tells of a gap."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import nats.errors

from dbg_broker.net.bus.buckets import OPERATION, BucketName, Buckets, BusDown
from dbg_broker.net.bus.connection import CantJoin, NatsConnection, Servers, open_connection
from dbg_broker.net.bus.frames import Receiving, Sending
from dbg_broker.net.loop import Tasks
from dbg_broker.quotas import LruMap
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.errors import error_line, printable

logger = logging.getLogger("dbg_broker")

PREFIX = "dbg_broker.to"
"""Subjects of messages: the receiver's name follows, and the sender's."""

MAX_WAITING_BYTES = 16 * limits.MIB
"""Bytes that wait for NATS to take them: the windows of 64 legs. More is not taken."""

GRACE_SECONDS = 2.0
"""Seconds without a connection for which messages wait: one server of three has died, and another is dialled."""

LEAST_PAUSE, MOST_PAUSE = 0.1, 2.0
"""Seconds between two rounds of dialling, growing, with jitter."""

TEND_SECONDS = 30.0
"""Seconds after which it is looked again whether the buckets are on as many servers as there are."""

REMOVED = {OPERATION: "DEL"}
"""Headers of a key's removal."""

MAX_SENDERS = 512
"""Brokers whose numbers are kept: those of a cluster, and as many that have gone."""


@dataclass(slots=True)
class BusHandlers:
    """What a bus calls, in the loop's thread."""

    received: Callable[[str, bytes], None]
    """With the name of a broker and what it has sent."""
    lost: Callable[[str], None]
    """With the name of a broker of which a message has not come."""
    up: Callable[[], None]
    """NATS answers, at first or again: its buckets may be empty."""
    down: Callable[[str], None]
    """NATS has gone, and why."""


@dataclass(slots=True)
class BusMeters:
    """Counters of a bus; they only grow."""

    sent: int = 0
    received: int = 0
    refused: int = 0
    """Messages that were not taken, as NATS was gone or too much waited."""
    gaps: int = 0


class Bus:
    """The bus as one broker has it. No call blocks the event loop."""

    def __init__(self, name: str, servers: Servers, timers: Timers) -> None:
        self.name = name
        """This broker's name in the cluster, another one after each start."""
        self.peers: dict[str, None] = {}
        """The names of the other brokers."""
        self.handlers: BusHandlers | None = None
        self.meters = BusMeters()
        self.buckets = Buckets()
        self.is_up = False
        """Whether NATS answers, or did a moment ago."""
        self.lost_at: float | None = None
        """When the connection to NATS was lost, None while there is one."""
        self._servers, self._timers = servers, timers
        self._outbox = _Outbox()
        self._sending: LruMap[str, Sending] = LruMap(MAX_SENDERS)
        self._receiving: LruMap[str, Receiving] = LruMap(MAX_SENDERS)
        self._most_bytes = limits.MIB // 2
        self._tasks = Tasks()

    # ------------------------------------------------------------------------------------------------------- messages

    def send(self, to: str, payload: bytes) -> bool:
        """Send a broker something, in order and at most once; False if it was not taken, and never will be."""
        if not self.is_up or not self._outbox.has_room(len(payload)):
            self.meters.refused += 1
            return False
        subject = f"{PREFIX}.{to}.{self.name}"
        for frame in self._sending_to(to).frames(payload):
            self._outbox.put(subject, frame)
        self.meters.sent += 1
        return True

    def publish(self, payload: bytes) -> bool:
        """Send it to all other brokers; False if one of them lacks it."""
        taken = [self.send(peer, payload) for peer in self.peers]
        return all(taken)

    def announce(self, bucket: BucketName, key: str, value: bytes | None) -> None:
        """Write a value into a bucket, or remove the key, for those who watch; nobody waits until it is kept."""
        if self.is_up:
            self._outbox.put(bucket.subject(key), value or b"", REMOVED if value is None else None)

    def beat(self) -> None:
        """Tell each broker the number of the last frame for it, so that one that is missing is known."""
        if self.is_up:
            for peer in self.peers:
                self._outbox.put(f"{PREFIX}.{peer}.{self.name}", self._sending_to(peer).beat())

    def _sending_to(self, to: str) -> Sending:
        return self._sending.use(to, lambda: Sending(self._most_bytes))

    def _take(self, subject: str, frame: bytes, _: dict[str, str] | None) -> None:
        if self.handlers is None:
            return
        sender = subject.rpartition(".")[2]
        receiving = self._receiving.use(sender, Receiving)
        payload = receiving.take(frame)
        if receiving.is_behind:
            self.meters.gaps += 1
            self.handlers.lost(sender)
        if payload is not None:
            self.meters.received += 1
            self.handlers.received(sender, payload)

    # ------------------------------------------------------------------------------------------------------ connection

    async def open(self) -> None:
        """Connect, and stay connected until it is closed. Raise CantJoin or BusDown if no server takes this broker."""
        connection = await open_connection(self._servers, self.name)
        try:
            await self._use(connection)
        except (nats.errors.Error, OSError) as error:
            raise BusDown(error_line(error)) from None

    async def close(self) -> None:
        """Send what waits, for a moment, and end."""
        connection = self.buckets.connection
        await self._tasks.cancel()
        if connection is not None:
            with contextlib.suppress(nats.errors.Error, OSError):
                await asyncio.wait_for(self._outbox.drain(connection), GRACE_SECONDS)
                await connection.flush()
            await connection.close()

    async def _use(self, connection: NatsConnection) -> None:
        """Go on with a connection, until it ends."""
        self._most_bytes = connection.most_bytes // 2
        try:
            await connection.subscribe(f"{PREFIX}.{self.name}.*", self._take)
            await self.buckets.use(connection)
            # Whoever hears of this broker from now on reaches it.
            await connection.flush()
        except BaseException:
            await connection.close()
            raise
        was_up, self.is_up, self.lost_at = self.is_up, True, None
        logger.info("NATS answers at %s", connection.url)
        if not was_up and self.handlers is not None:
            self.handlers.up()
        self._tasks.begin(self._follow(connection))

    async def _follow(self, connection: NatsConnection) -> None:
        """Write to a connection until it ends, and then look for another one."""
        writing = asyncio.create_task(self._outbox.write(connection))
        tending = asyncio.create_task(self._tend(connection))
        try:
            why = await connection.ended
        finally:
            writing.cancel()
            tending.cancel()
        self.lost_at = lost_at = self._timers.clock()
        logger.info("the connection to NATS at %s has ended: %s", connection.url, printable(why))
        await self.buckets.use(None)
        self._timers.schedule(GRACE_SECONDS, lambda: self._miss(lost_at, why))
        self._tasks.begin(self._dial(connection.others))

    def _miss(self, lost_at: float, why: str) -> None:
        """Take note that NATS has been gone for too long to wait for it with messages."""
        if self.lost_at != lost_at or not self.is_up:
            return
        self.is_up = False
        self._outbox.clear()
        if self.handlers is not None:
            self.handlers.down(why)

    async def _dial(self, others: list[str]) -> None:
        """Dial one server after the other, and again after a growing pause."""
        pause = LEAST_PAUSE
        while True:
            try:
                connection = await open_connection(self._servers, self.name, others)
                await self._use(connection)
            except (CantJoin, BusDown, nats.errors.Error, OSError) as error:
                logger.info("NATS can't be reached: %s", error_line(error))
            else:
                return
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads dials, and hides nothing
            pause = min(2 * pause, MOST_PAUSE)

    async def _tend(self, connection: NatsConnection) -> None:
        """Have the buckets there, on as many servers as there are; notice an end of which the client says nothing."""
        while True:
            try:
                await self.buckets.make()
            except BusDown as error:
                logger.info("the buckets are not ready: %s", printable(str(error)))
                if not connection.is_open:
                    await connection.note_end()
                await asyncio.sleep(1.0)
            else:
                await asyncio.sleep(TEND_SECONDS)


class _Outbox:
    """Frames that wait for NATS to take them, in order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, bytes, dict[str, str] | None]] = deque()
        self._bytes = 0
        self._has_come = asyncio.Event()

    def has_room(self, size: int) -> bool:
        """Tell whether so many bytes more may wait."""
        return self._bytes + size <= MAX_WAITING_BYTES

    def put(self, subject: str, frame: bytes, headers: dict[str, str] | None = None) -> None:
        """Let a frame wait its turn."""
        self._waiting.append((subject, frame, headers))
        self._bytes += len(frame)
        self._has_come.set()

    def clear(self) -> None:
        """Drop what waits; its receivers find by the numbers that it is missing."""
        self._waiting.clear()
        self._bytes = 0

    async def drain(self, connection: NatsConnection) -> None:
        """Send what waits. Raise an error of NATS' client."""
        while self._waiting:
            subject, frame, headers = self._waiting.popleft()
            self._bytes -= len(frame)
            await connection.publish(subject, frame, headers)

    async def write(self, connection: NatsConnection) -> None:
        """Send what comes, until the connection ends; what NATS' client does not take is missed by its number."""
        while True:
            try:
                await self.drain(connection)
            except (nats.errors.Error, OSError) as error:
                logger.info("NATS does not take a message: %s", error_line(error))
                if not connection.is_open:
                    return
            self._has_come.clear()
            if not self._waiting:
                await self._has_come.wait()
