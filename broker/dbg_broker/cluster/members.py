"""Membership: which brokers there are, by the heartbeats that each sends to all.

A broker whose heartbeat has not come for some seconds is gone, by the clock of the one that waits for it: no broker's
clock counts for another.
"""

from __future__ import annotations

from collections.abc import Callable

from dbg_broker.timers import Timers
from dbg_dial.endpoint import weight_of
from dbg_wire import limits
from dbg_wire.errors import PeerError
from dbg_wire.messages import BrokerAddress
from dbg_wire.records.record import InvalidMessage, Pid, Record, Sentence, Word, decode_record, encode_record

HEARTBEAT_SECONDS = 1.0
"""Seconds between two heartbeats of a broker."""

HERE = "dbg_broker.here"
"""Subjects of heartbeats: the broker's name follows. One without content says that it ends."""

GONE_SECONDS = 4.0
"""Seconds without a heartbeat after which a broker is gone."""

ABSENCE_SECONDS = 3.0
"""Seconds between two heartbeats of this broker that show that it, or its host, was suspended."""

MAX_MEMBERS = limits.MAX_BROKERS
"""Brokers of one site: as many as a rank or terminal is told of."""


class Presence(Record):
    """A broker as it tells the others of itself; ``url`` and ``fingerprint`` are those of its endpoint.

    ``site`` is a digest of the tokens that all brokers have, and ``host`` and ``pid`` are for people alone.
    """

    name: Word
    url: Sentence
    fingerprint: Sentence
    host: Sentence
    pid: Pid
    site: Word

    @property
    def address(self) -> BrokerAddress:
        """Return what ranks and terminals are told of it."""
        return BrokerAddress(url=self.url, fingerprint=self.fingerprint)


def read_presence(value: bytes) -> Presence:
    """Return the presence that a heartbeat tells. Raise PeerError."""
    try:
        found: Presence = decode_record(Presence, value)
    except InvalidMessage as error:
        raise PeerError(f"a broker's presence that can't be read: {error}") from None
    return found


class Members:
    """The other brokers; ``came`` and ``gone`` are called with their names."""

    def __init__(self, own: Presence, timers: Timers, came: Callable[[str], None], gone: Callable[[str], None]) -> None:
        self.own = own
        self._timers = timers
        self._came, self._gone = came, gone
        self._others: dict[str, Presence] = {}
        self._seen: dict[str, float] = {}
        """When a heartbeat of each of them has come last."""
        self._swept = timers.clock()

    def __len__(self) -> int:
        return len(self._others)

    def all(self) -> tuple[Presence, ...]:
        """Return all brokers: this one, and the others by their names."""
        return (self.own, *(self._others[name] for name in sorted(self._others)))

    def chosen(self, name: str) -> Presence | None:
        """Return the one of the others that rendezvous hashing of a name chooses; None if there are none."""
        return max(self._others.values(), key=lambda one: weight_of(one.url, name), default=None)

    def value(self) -> bytes:
        """Return the heartbeat of this broker."""
        return encode_record(self.own).encode()

    def saw(self, presence: Presence) -> None:
        """Take note of a heartbeat; those of another site, whose tokens differ, count for nothing."""
        name = presence.name
        if name == self.own.name or presence.site != self.own.site:
            return
        known = self._others.get(name)
        if known is None and len(self) + 1 >= MAX_MEMBERS:
            return
        self._others[name], self._seen[name] = presence, self._timers.clock()
        if known is None or known.address != presence.address:
            self._came(name)

    def left(self, name: str) -> None:
        """Take note that a broker has said that it ends, or has none of its heartbeats come."""
        if self._others.pop(name, None) is not None:
            del self._seen[name]
            self._gone(name)

    def sweep(self, *, is_heard: bool) -> None:
        """Take note of those that are gone by now, unless nothing could be heard of them."""
        now = self._timers.clock()
        if not is_heard or now - self._swept >= ABSENCE_SECONDS:
            self._seen = dict.fromkeys(self._others, now)
        self._swept = now
        for name in [name for name in self._others if now - self._seen[name] >= GONE_SECONDS]:
            self.left(name)
