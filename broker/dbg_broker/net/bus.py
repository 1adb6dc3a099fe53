"""Message bus between brokers: what goes from one to another, and the buckets that they share, on NATS.

Only this module imports NATS' client, and only ``dbg-broker serve --cluster`` imports this module.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from dbg_wire.errors import DbgError


class BucketName(enum.Enum):
    """A bucket of keys and values that all brokers share."""

    RANKS = "dbg_broker_ranks"
    """Who owns which rank; the revision of an entry is its fencing token."""
    BROKERS = "dbg_broker_brokers"
    """Who is there; entries expire."""
    TOKENS = "dbg_broker_tokens"
    """Issued and revoked tokens, by their digests."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a bucket holds for a key."""

    value: bytes
    revision: int


class Refused(DbgError):
    """A write with an old revision; ``entry`` is what the bucket holds, None if the key is gone."""

    def __init__(self, entry: Entry | None) -> None:
        super().__init__(entry)
        self.entry = entry

    def __str__(self) -> str:
        return "another broker has written this key"


class BusDown(DbgError):
    """NATS does not answer."""

    def __str__(self) -> str:
        return "NATS does not answer"


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


class Bus:
    """The bus as one broker has it. No call blocks the event loop."""

    def __init__(self, name: str) -> None:
        self.name = name
        """This broker's name in the cluster, another one after each start."""
        self.handlers: BusHandlers | None = None
        self.peers: dict[str, None] = {}
        """The names of the other brokers."""

    @property
    def is_up(self) -> bool:
        """Tell whether NATS answers."""
        raise NotImplementedError

    def send(self, to: str, payload: bytes) -> bool:
        """Send a broker something, in order and at most once; False if it was not taken, and never will be."""
        raise NotImplementedError

    def publish(self, payload: bytes) -> bool:
        """Send it to all other brokers; False if one of them lacks it."""
        taken = [self.send(peer, payload) for peer in self.peers]
        return all(taken)

    async def read(self, bucket: BucketName, key: str) -> Entry | None:
        """Return what a bucket has for a key. Raise BusDown."""
        raise NotImplementedError

    async def write(self, bucket: BucketName, key: str, value: bytes, last: int | None = None) -> int:
        """Write a value and return its revision.

        With ``last`` the key must have this revision, 0 for none. Raise Refused if it has another one, and BusDown.
        """
        raise NotImplementedError

    async def remove(self, bucket: BucketName, key: str) -> None:
        """Remove a key. Raise BusDown."""
        raise NotImplementedError

    async def entries(self, bucket: BucketName) -> dict[str, Entry]:
        """Return all that a bucket holds. Raise BusDown."""
        raise NotImplementedError

    def watch(self, bucket: BucketName, changed: Callable[[str, bytes | None], None]) -> None:
        """Have each later change of a bucket told, also the own ones: a key and its value, None if it is removed.

        Changes that happen while NATS is gone are not told; whoever watches reads all when it is back.
        """
        raise NotImplementedError
