"""Membership: the brokers of the cluster, known by the heartbeats that each broker sends to all others.

A broker is gone if its heartbeat has been missing for some seconds. Each broker measures this with its own clock and
never compares it with the clock of another broker.
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
"""Prefix of the subjects of heartbeats, followed by the broker's name. A broker that ends sends an empty heartbeat."""

GONE_SECONDS = 4.0
"""Seconds without a heartbeat after which a broker is gone."""

ABSENCE_SECONDS = 3.0
"""Seconds between two heartbeats of this broker after which it assumes that its process or its host was suspended. Then
this broker does not remove the brokers whose heartbeats are missing."""

MAX_MEMBERS = limits.MAX_BROKERS
"""Maximum number of brokers of one cluster: a welcome to a rank or terminal can't name more."""


class Presence(Record):
    """Description of a broker that it sends to the others; ``url`` and ``fingerprint`` belong to its endpoint.

    ``site`` is a digest of the tokens that all brokers of a cluster share. ``host`` and ``pid`` are only for people.
    """

    name: Word
    url: Sentence
    fingerprint: Sentence
    host: Sentence
    pid: Pid
    site: Word

    @property
    def address(self) -> BrokerAddress:
        """Address of the broker as it is sent to ranks and terminals."""
        return BrokerAddress(url=self.url, fingerprint=self.fingerprint)


def read_presence(value: bytes) -> Presence:
    """Decode the presence in a heartbeat. Raise PeerError."""
    try:
        found: Presence = decode_record(Presence, value)
    except InvalidMessage as error:
        raise PeerError(f"can't decode a broker's heartbeat: {error}") from None
    return found


class Members:
    """The other brokers. ``came`` is called with the name of a new broker, ``gone`` with the name of a lost one."""

    def __init__(self, own: Presence, timers: Timers, came: Callable[[str], None], gone: Callable[[str], None]) -> None:
        self.own = own
        self._timers = timers
        self._came, self._gone = came, gone
        self._others: dict[str, Presence] = {}
        self._seen: dict[str, float] = {}
        """Time of the last heartbeat of each broker."""
        self._swept = timers.clock()

    def __len__(self) -> int:
        return len(self._others)

    def all(self) -> tuple[Presence, ...]:
        """Return all brokers: this one first, then the others in the order of their names."""
        return (self.own, *(self._others[name] for name in sorted(self._others)))

    def chosen(self, name: str) -> Presence | None:
        """Return the other broker that rendezvous hashing chooses for a name, or None if there are no others."""
        return max(self._others.values(), key=lambda one: weight_of(one.url, name), default=None)

    def value(self) -> bytes:
        """Return the encoded heartbeat of this broker."""
        return encode_record(self.own).encode()

    def saw(self, presence: Presence) -> None:
        """Record a heartbeat. Ignore heartbeats of another cluster, whose tokens differ."""
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
        """Remove a broker that announced its end or whose heartbeats are missing."""
        if self._others.pop(name, None) is not None:
            del self._seen[name]
            self._gone(name)

    def sweep(self, *, is_heard: bool) -> None:
        """Remove the brokers whose heartbeats are overdue, unless this broker could not receive any."""
        now = self._timers.clock()
        if not is_heard or now - self._swept >= ABSENCE_SECONDS:
            self._seen = dict.fromkeys(self._others, now)
        self._swept = now
        for name in [name for name in self._others if now - self._seen[name] >= GONE_SECONDS]:
            self.left(name)
