"""Buses of several brokers in one process: what NATS does for them, in dictionaries and in the loop's next turns."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from itertools import count

from dbg_broker.net.bus import BucketName, Bus, BusDown, Entry, Refused


class MemoryNats:
    """What buses of one cluster are joined to; ``is_up`` tells whether it answers."""

    def __init__(self) -> None:
        self.is_up = True
        self.buses: dict[str, MemoryBus] = {}
        self.buckets: dict[BucketName, dict[str, Entry]] = defaultdict(dict)
        self._revisions = count(1)

    def join(self, name: str) -> MemoryBus:
        """Return the bus of another broker."""
        self.buses[name] = bus = MemoryBus(name, self)
        return bus

    def go(self, *, empty: bool = True) -> None:
        """Stop answering; what the buckets hold is gone unless ``empty`` is False."""
        self.is_up = False
        if empty:
            self.buckets.clear()
            self._revisions = count(1)
        for bus in tuple(self.buses.values()):
            if bus.handlers is not None:
                bus.handlers.down("it was stopped")

    def come(self) -> None:
        """Answer again."""
        self.is_up = True
        for bus in tuple(self.buses.values()):
            if bus.handlers is not None:
                bus.handlers.up()

    def write(self, bucket: BucketName, key: str, value: bytes) -> int:
        """Put a value into a bucket and tell those who watch."""
        revision = next(self._revisions)
        self.buckets[bucket][key] = Entry(value, revision)
        self.tell(bucket, key, value)
        return revision

    def tell(self, bucket: BucketName, key: str, value: bytes | None) -> None:
        """Tell those who watch a bucket of a change."""
        for bus in tuple(self.buses.values()):
            for changed in bus.watches[bucket]:
                asyncio.get_running_loop().call_soon(changed, key, value)


class MemoryBus(Bus):
    """The bus of one broker; what it sends arrives in the loop's next turn."""

    def __init__(self, name: str, nats: MemoryNats) -> None:
        super().__init__(name)
        self._nats = nats
        self.watches: dict[BucketName, list[Callable[[str, bytes | None], None]]] = defaultdict(list)
        self.sent: list[tuple[str, bytes]] = []
        self.takes = True
        """Whether it takes what is sent; a test sets it to False for a bus on which too much waits."""
        self.loses = False
        """Whether what is sent is lost on its way, as in a cut; the receiver is told with the next message."""
        self._gaps: set[str] = set()

    @property
    def is_up(self) -> bool:
        """Tell whether the cluster answers."""
        return self._nats.is_up

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

    def _arrive(self, to: str, payload: bytes) -> None:
        bus = self._nats.buses.get(to)
        if bus is None or bus.handlers is None:
            return
        if to in self._gaps:
            self._gaps.discard(to)
            bus.handlers.lost(self.name)
        bus.handlers.received(self.name, payload)

    def leave(self) -> None:
        """Be gone, as a broker that was killed."""
        del self._nats.buses[self.name]

    async def read(self, bucket: BucketName, key: str) -> Entry | None:
        """Return what the bucket has for a key."""
        await self._answered()
        return self._nats.buckets[bucket].get(key)

    async def write(self, bucket: BucketName, key: str, value: bytes, last: int | None = None) -> int:
        """Write a value, if the revision is the last one."""
        await self._answered()
        known = self._nats.buckets[bucket].get(key)
        if last is not None and (known.revision if known is not None else 0) != last:
            raise Refused(known)
        return self._nats.write(bucket, key, value)

    async def remove(self, bucket: BucketName, key: str) -> None:
        """Remove a key."""
        await self._answered()
        if self._nats.buckets[bucket].pop(key, None) is not None:
            self._nats.tell(bucket, key, None)

    async def entries(self, bucket: BucketName) -> dict[str, Entry]:
        """Return all that a bucket holds."""
        await self._answered()
        return dict(self._nats.buckets[bucket])

    def watch(self, bucket: BucketName, changed: Callable[[str, bytes | None], None]) -> None:
        """Have changes told."""
        self.watches[bucket].append(changed)

    async def _answered(self) -> None:
        await asyncio.sleep(0)
        if not self.is_up:
            raise BusDown
