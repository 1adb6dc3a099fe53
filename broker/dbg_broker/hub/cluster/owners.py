"""Ownership: which broker has a rank, by claims whose revisions are fencing tokens.

A claim is an entry of a bucket, written with the revision that the broker knows. An agent counts its connections, and
has one at a time: of two brokers that claim one rank, the one with the later connection wins, whichever of them NATS
hears first.

When NATS comes back empty its revisions begin anew. A number in the bucket counts such beginnings; it is the upper part
of each fencing token, so that these only grow.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from dbg_broker.net.bus.buckets import BucketName, BusDown, Conflict, Entry
from dbg_wire.errors import printable
from dbg_wire.records.bounds import Count, InvalidMessage, Word
from dbg_wire.records.record import Record, decode_record, encode_record

if TYPE_CHECKING:
    from dbg_broker.hub.cluster.cluster import Cluster
    from dbg_broker.net.bus.buckets import Buckets
    from dbg_broker.timers import Timers

logger = logging.getLogger("dbg_broker")

R = TypeVar("R", bound=Record)

AT_ONCE = 128
"""Claims that NATS is asked for at once: it takes 10,000 a second so, and 1,300 one after the other."""

AGAIN_SECONDS = 1.0
"""Seconds after which a claim is tried again that NATS has not answered."""

RENEW_SECONDS = 6 * 3600.0
"""Seconds after which a claim is written again, so that it doesn't expire as those of brokers that have gone."""

REVISION_BITS = 40
"""Bits of a fencing token that are the revision: a thousand claims a second for thirty years."""

BEGINNING = "beginning"
"""Key that counts how often the bucket has begun anew."""


class Owner(Record):
    """What the bucket holds of a rank: its broker, and the number of the connection that it has there."""

    broker: Word
    dial: Count
    key: str


class _Beginning(Record):
    """What the bucket holds of itself: how often it has begun, and a text that tells it from another one."""

    number: Count
    mark: Word


@dataclass(slots=True)
class _Claim:
    """A rank that this broker has; ``fence`` is 0 until NATS has taken the claim."""

    dial: int
    at: float
    """When it was written, or is to be."""
    last: int = 0
    """The revision that the next write expects."""
    fence: int = 0


Work = Callable[[str], Coroutine[Any, Any, None]]
"""Something to be done for a key at NATS; it raises BusDown if NATS does not answer."""


class _Queue:
    """What is to be done for keys: so much at once, and for each key one thing after the other, the latest alone."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._due: dict[str, Work] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._rests = False
        """Whether nothing is begun for a while, as NATS has not answered."""

    def __len__(self) -> int:
        return len(self._due.keys() | self._busy.keys())

    def put(self, key: str, what: Work) -> None:
        """Have something done for a key, in place of what is due for it."""
        self._due[key] = what
        self._pump()

    def drop(self, key: str) -> None:
        """Leave out what is due for a key; what has begun goes on."""
        self._due.pop(key, None)

    def _pump(self) -> None:
        while not self._rests and len(self._busy) < AT_ONCE:
            key = next((key for key in self._due if key not in self._busy), None)
            if key is None:
                return
            self._busy[key] = asyncio.get_running_loop().create_task(self._carry_out(key, self._due.pop(key)))

    async def _carry_out(self, key: str, what: Work) -> None:
        try:
            await what(key)
        except BusDown as error:
            logger.info("the owner of %s is not written: %s", printable(key), printable(str(error)))
            self._due.setdefault(key, what)
            if not self._rests:
                self._rests = True
                self._timers.schedule(AGAIN_SECONDS, self._go_on)
        finally:
            del self._busy[key]
        self._pump()

    def _go_on(self) -> None:
        self._rests = False
        self._pump()


class Owners:
    """The claims of one broker; its cluster is told which stand, which are lost, and which are certain again."""

    def __init__(self, cluster: Cluster, buckets: Buckets, timers: Timers) -> None:
        self._cluster, self._buckets, self._timers = cluster, buckets, timers
        self._claims: dict[str, _Claim] = {}
        self._queue = _Queue(timers)
        self._beginning: _Beginning | None = None
        self._doubtful: dict[str, set[int]] = {}
        """Ranks that may be another broker's by now, and the terminals whose keys were withheld from them."""
        self._renewed_at = timers.clock()

    @property
    def waiting(self) -> int:
        """Return how many claims NATS has not answered."""
        return len(self._queue)

    def withholds(self, key: str, number: int) -> bool:
        """Tell whether a terminal's keys can't be passed on, as it is not known whether this broker has the rank."""
        numbers = self._doubtful.get(key)
        if numbers is not None:
            numbers.add(number)
        return numbers is not None

    # ---------------------------------------------------------------------------------------------------- what happens

    def claim(self, key: str, dial: int, known: int = 0) -> None:
        """Claim a rank that has connected here; ``known`` is the newest fencing token of it that this broker knows."""
        last = _revision(known) if self._is_current(known) else 0
        self._claims[key] = _Claim(dial, self._timers.clock(), last)
        self._queue.put(key, self._write)

    def release(self, key: str) -> None:
        """Take a rank out of the bucket that is listed no more."""
        claim = self._claims.get(key)
        self.let_go(key)
        if claim is not None and self._is_current(claim.fence):
            fence = claim.fence
            self._queue.put(key, lambda key: self._forget(key, fence))

    def let_go(self, key: str) -> None:
        """Forget the claim of a rank that another broker has."""
        self._claims.pop(key, None)
        self._queue.drop(key)
        self._doubtful.pop(key, None)

    def came_back(self) -> None:
        """Look whether the ranks of this broker are still its own after it was away; their keys wait until then."""
        for key, claim in self._claims.items():
            if claim.fence:
                self._doubtful.setdefault(key, set())
        self._check_all()

    def down(self) -> None:
        """Take note that NATS has gone: nobody can be asked, and what stands at this broker goes on."""
        for key in tuple(self._doubtful):
            self._is_certain(key)

    async def up(self) -> None:
        """Find out whether the bucket is the one that it was, and bring the claims into it."""
        while True:
            try:
                begun = await self._begin()
            except BusDown as error:
                logger.info("who has which rank is not known: %s", printable(str(error)))
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                break
        if begun != self._beginning:
            self._beginning = begun
            for claim in self._claims.values():
                claim.last = claim.fence = 0
        self._check_all()

    def sweep(self, now: float) -> None:
        """Renew claims that are old."""
        if now - self._renewed_at < RENEW_SECONDS / 6:
            return
        self._renewed_at = now
        for key in [key for key, claim in self._claims.items() if now - claim.at >= RENEW_SECONDS]:
            self._queue.put(key, self._write)

    # -------------------------------------------------------------------------------------------------- what is written

    def _is_current(self, fence: int) -> bool:
        return self._beginning is not None and fence >> REVISION_BITS == self._beginning.number

    def _check_all(self) -> None:
        for key in tuple(self._claims):
            self._queue.put(key, self._check)

    def _known_beginning(self) -> _Beginning:
        if self._beginning is None:
            raise BusDown("which bucket it is has not been read")
        return self._beginning

    async def _write(self, key: str) -> None:
        """Write a claim until it stands, or until another broker is seen to have the rank by right."""
        while (claim := self._claims.get(key)) is not None:
            begun = self._known_beginning()
            try:
                revision = await self._buckets.write(BucketName.RANKS, _name(key), self._value(key, claim), claim.last)
            except Conflict as conflict:
                if not self._may_go_on(key, claim, conflict.entry):
                    return
                continue
            claim.last, claim.fence = revision, begun.number << REVISION_BITS | revision
            claim.at = self._timers.clock()
            if self._claims.get(key) is claim:
                self._cluster.claimed(key, claim.fence)
                self._is_certain(key)
                return

    def _may_go_on(self, key: str, claim: _Claim, entry: Entry | None) -> bool:
        """Take note of who has a rank, and tell whether this broker may claim it in spite of that."""
        owner = None if entry is None else read_owner(entry.value)
        claim.last = 0 if entry is None else entry.revision
        if owner is None or owner.broker == self._cluster.name or owner.dial <= claim.dial:
            return True
        if self._claims.get(key) is claim:
            logger.info("the broker %s has the rank %s", printable(owner.broker), printable(key))
            self.let_go(key)
            self._cluster.lost_rank(key)
        return False

    async def _check(self, key: str) -> None:
        """Look whether the claim of a rank still stands, and claim it anew if nobody else has it by right."""
        claim = self._claims.get(key)
        if claim is None:
            return
        self._known_beginning()
        entry = await self._buckets.read(BucketName.RANKS, _name(key))
        if claim.fence and entry is not None and entry.revision == claim.last:
            self._is_certain(key)
        elif self._may_go_on(key, claim, entry):
            await self._write(key)

    def _is_certain(self, key: str) -> None:
        numbers = self._doubtful.pop(key, None)
        if numbers is not None:
            self._cluster.resend(numbers)

    async def _forget(self, key: str, fence: int) -> None:
        if self._is_current(fence) and key not in self._claims:
            await self._buckets.forget(BucketName.RANKS, _name(key), _revision(fence))

    def _value(self, key: str, claim: _Claim) -> bytes:
        return encode_record(Owner(broker=self._cluster.name, dial=claim.dial, key=key)).encode()

    # ------------------------------------------------------------------------------------------------------- beginnings

    async def _begin(self) -> _Beginning:
        """Return which beginning the bucket is; write one that is above all that this broker knows. Raise BusDown."""
        while True:
            entry = await self._buckets.read(BucketName.RANKS, BEGINNING)
            known = self._beginning
            found = None if entry is None else _read(_Beginning, entry.value)
            if found is not None and (known is None or found == known or found.number > known.number):
                return found
            begun = _Beginning(number=1 if known is None else known.number + 1, mark=secrets.token_hex(8))
            try:
                value = encode_record(begun).encode()
                await self._buckets.write(BucketName.RANKS, BEGINNING, value, 0 if entry is None else entry.revision)
            except Conflict:
                continue
            return begun


def _revision(fence: int) -> int:
    return fence & ((1 << REVISION_BITS) - 1)


def _name(key: str) -> str:
    """Return a rank's key as NATS takes it, which has a narrow alphabet for keys."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def read_owner(value: bytes) -> Owner | None:
    """Return who has a rank, None if the entry can't be read."""
    return _read(Owner, value)


def _read(kind: type[R], value: bytes) -> R | None:
    """Return what an entry holds, None if it can't be read."""
    try:
        found: R = decode_record(kind, value)
    except InvalidMessage:
        return None
    return found
