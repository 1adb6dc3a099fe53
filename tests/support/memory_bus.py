"""Buses of several brokers in one process: what NATS does for them, in dictionaries and in the loop's next turns."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from itertools import count

from dbg_broker.net.bus.buckets import BucketName, Buckets, BusDown, Changed, Conflict, Entry
from dbg_broker.net.bus.bus import Bus
from dbg_broker.net.bus.connection import Servers
from dbg_broker.timers import Timers


class MemoryNats:
    """What buses of one cluster are joined to; ``is_up`` tells whether it answers."""

    def __init__(self) -> None:
        self.is_up = True
        self.buses: dict[str, MemoryBus] = {}
        self.entries: dict[BucketName, dict[str, Entry]] = defaultdict(dict)
        self._revisions = count(1)

    def join(self, name: str) -> MemoryBus:
        self.buses[name] = bus = MemoryBus(name, self)
        return bus

    def go(self, *, empty: bool = True) -> None:
        """Stop answering; what the buckets hold is gone unless ``empty`` is False."""
        self.is_up = False
        if empty:
            self.entries.clear()
            self._revisions = count(1)
        for bus in tuple(self.buses.values()):
            bus.is_up, bus.lost_at = False, time.monotonic()
            if bus.handlers is not None:
                bus.handlers.down("it was stopped")

    def come(self) -> None:
        self.is_up = True
        for bus in tuple(self.buses.values()):
            bus.is_up, bus.lost_at = True, None
            if bus.handlers is not None:
                bus.handlers.up()

    def write(self, bucket: BucketName, key: str, value: bytes) -> int:
        revision = next(self._revisions)
        self.entries[bucket][key] = Entry(value, revision)
        self.tell(bucket, key, value)
        return revision

    def tell(self, bucket: BucketName, key: str, value: bytes | None) -> None:
        for bus in tuple(self.buses.values()):
            for watched, sought, changed in bus.buckets.watches:
                if watched is bucket and sought in (key, "*"):
                    asyncio.get_running_loop().call_soon(changed, key, value)


class MemoryBuckets(Buckets):
    """The buckets as one broker has them."""

    def __init__(self, nats: MemoryNats) -> None:
        super().__init__()
        self._nats = nats
        self.watches: list[tuple[BucketName, str, Changed]] = []

    async def read(self, bucket: BucketName, key: str) -> Entry | None:
        await self._answered()
        return self._nats.entries[bucket].get(key)

    async def write(self, bucket: BucketName, key: str, value: bytes, last: int | None = None) -> int:
        await self._answered()
        known = self._nats.entries[bucket].get(key)
        if last is not None and (known.revision if known is not None else 0) != last:
            raise Conflict(known)
        return self._nats.write(bucket, key, value)

    async def forget(self, bucket: BucketName, key: str, revision: int) -> None:
        await self._answered()
        known = self._nats.entries[bucket].get(key)
        if known is not None and known.revision <= revision:
            del self._nats.entries[bucket][key]

    async def entries(self, bucket: BucketName) -> dict[str, Entry]:
        await self._answered()
        return dict(self._nats.entries[bucket])

    def watch(self, bucket: BucketName, key: str, changed: Changed) -> None:
        self.watches.append((bucket, key, changed))

    async def _answered(self) -> None:
        await asyncio.sleep(0)
        if not self._nats.is_up:
            raise BusDown("it was stopped")


class MemoryBus(Bus):
    """The bus of one broker; what it sends arrives in the loop's next turn."""

    buckets: MemoryBuckets

    def __init__(self, name: str, nats: MemoryNats) -> None:
        super().__init__(name, Servers(()), Timers(time.monotonic, lambda seconds, call: None))
        self._nats = nats
        self.is_up = nats.is_up
        self.buckets = MemoryBuckets(nats)
        self.sent: list[tuple[str, bytes]] = []
        self.takes = True
        """Whether it takes what is sent; a test sets it to False for a bus on which too much waits."""
        self.loses = False
        """Whether what is sent is lost on its way, as in a cut; the receiver is told with the next message."""
        self._gaps: set[str] = set()

    def send(self, to: str, payload: bytes) -> bool:
        """Let a payload arrive in the next turn."""
        if not self.is_up or not self.takes:
            return False
        self.sent.append((to, payload))
        if self.loses:
            self._gaps.add(to)
        else:
            asyncio.get_running_loop().call_soon(self._arrive, to, payload)
        return True

    def announce(self, bucket: BucketName, key: str, value: bytes | None) -> None:
        if not self.is_up:
            return
        if value is not None:
            self._nats.write(bucket, key, value)
        elif self._nats.entries[bucket].pop(key, None) is not None:
            self._nats.tell(bucket, key, None)

    def beat(self) -> None:
        for to in tuple(self._gaps):
            bus = self._nats.buses.get(to)
            if bus is not None and bus.handlers is not None:
                self._gaps.discard(to)
                bus.handlers.lost(self.name)

    def _arrive(self, to: str, payload: bytes) -> None:
        bus = self._nats.buses.get(to)
        if bus is None or bus.handlers is None:
            return
        if to in self._gaps:
            self._gaps.discard(to)
            bus.handlers.lost(self.name)
        bus.handlers.received(self.name, payload)

    async def open(self) -> None:
        if self.handlers is not None:
            self.handlers.up()

    async def close(self) -> None:
        self.leave()

    def leave(self) -> None:
        self._nats.buses.pop(self.name, None)
