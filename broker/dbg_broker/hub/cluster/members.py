"""Membership: which brokers there are, by the heartbeats that each puts into a bucket, and who is told their addresses.

A broker whose heartbeat has not come for some seconds is gone, by the clock of the one that waits for it: no broker's
clock counts for another. Home, ranks and terminals are told the addresses of all whenever these change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec

from dbg_broker.hub.links import NOBODY, RankLink
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.errors import PeerError
from dbg_wire.finding.endpoint import Endpoint, weight_of
from dbg_wire.finding.rendezvous import known_endpoints
from dbg_wire.messages import BrokerAddress
from dbg_wire.records.bounds import InvalidMessage, Pid, Real, Sentence, Word
from dbg_wire.records.record import Record, decode_record, encode_record

if TYPE_CHECKING:
    from dbg_broker.hub.links import TerminalLink
    from dbg_broker.hub.state import Hub

HEARTBEAT_SECONDS = 1.0
"""Seconds between two heartbeats of a broker."""

GONE_SECONDS = 4.0
"""Seconds without a heartbeat after which a broker is gone."""

MAX_MEMBERS = 256
"""Brokers of one cluster: with 5,000 ranks each they hold a million."""


class Presence(Record):
    """A broker as it tells the others of itself; ``url`` and ``fingerprints`` are those of its endpoint.

    ``site`` is a digest of the tokens that all brokers of a cluster have. ``started`` is when it did, in seconds since
    the epoch: for people alone. ``tells`` says that it has a command for events, and ``logs`` that it has clients which
    ask for the texts of log points.
    """

    name: Word
    url: Sentence
    fingerprints: Annotated[tuple[Sentence, ...], msgspec.Meta(max_length=2 * limits.MAX_PINS)]
    host: Sentence
    pid: Pid
    release: Word
    started: Real
    site: Word
    tells: bool = False
    logs: bool = False


def read_presence(value: bytes) -> Presence:
    """Return the presence in an entry of the bucket. Raise PeerError."""
    try:
        found: Presence = decode_record(Presence, value)
    except InvalidMessage as error:
        raise PeerError(f"a broker's presence that can't be read: {error}") from None
    return found


class Members:
    """The other brokers; ``came`` and ``gone`` are called with their names, ``came`` also with ``greets``."""

    def __init__(
        self, own: Presence, timers: Timers, came: Callable[[str, bool], None], gone: Callable[[str], None]
    ) -> None:
        self.own = own
        self._timers = timers
        self._came, self._gone = came, gone
        self._others: dict[str, Presence] = {}
        self._seen: dict[str, float] = {}
        """When a heartbeat of each of them has come last."""

    def __len__(self) -> int:
        return len(self._others)

    def find(self, name: str) -> Presence | None:
        """Return what a broker tells of itself; None if it is gone, or the own name."""
        return self._others.get(name)

    def others(self) -> tuple[Presence, ...]:
        """Return the other brokers, by their names."""
        return tuple(self._others[name] for name in sorted(self._others))

    def speaks_for(self, run: str) -> bool:
        """Tell whether this broker is the one that tells events of a run, among those that tell any."""
        telling = [one for one in (self.own, *self.others()) if one.tells]
        return not telling or self._is_chosen(telling, run)

    def listening(self) -> list[str]:
        """Return the names of those whose clients ask for the texts of log points."""
        return [name for name, presence in self._others.items() if presence.logs]

    def inherits(self, key: str) -> bool:
        """Tell whether this broker is the one that has an ended rank whose broker has gone."""
        return self._is_chosen((self.own, *self.others()), key)

    def _is_chosen(self, members: Iterable[Presence], name: str) -> bool:
        """Tell whether rendezvous hashing of a name chooses this broker."""
        return max(members, key=lambda one: weight_of(one.url, name)) is self.own

    def value(self) -> bytes:
        """Return what the bucket is to hold of this broker."""
        return encode_record(self.own).encode()

    def saw(self, presence: Presence, *, greets: bool = False) -> None:
        """Take note of a heartbeat; those of another site, whose tokens differ, count for nothing.

        ``greets`` tells whether the broker has told this one alone.
        """
        name = presence.name
        if name == self.own.name or presence.site != self.own.site:
            return
        known = self._others.get(name)
        if known is None and len(self._others) >= MAX_MEMBERS:
            return
        self._others[name], self._seen[name] = presence, self._timers.clock()
        if known is None:
            self._came(name, greets)

    def left(self, name: str) -> None:
        """Take note that a broker has said that it ends, or has none of its heartbeats come."""
        if self._others.pop(name, None) is not None:
            del self._seen[name]
            self._gone(name)

    def poll(self, now: float) -> None:
        """Take note of those that are gone by now."""
        for name in [name for name in self._others if now - self._seen[name] >= GONE_SECONDS]:
            self.left(name)

    def excuse(self, now: float) -> None:
        """Give all of them a new term: this broker itself has not looked, or NATS has not carried anything."""
        self._seen = dict.fromkeys(self._others, now)


TOLD_SECONDS = 1.0
"""Seconds for which changes are gathered (debounce): the brokers of a site start and end together."""


class Addresses:
    """The addresses that this broker tells; ``write`` is called with those of the others, for the files of the home."""

    def __init__(self, hub: Hub, members: Members) -> None:
        self._hub, self._members = hub, members
        self._is_due = False
        self.write: Callable[[tuple[Endpoint, ...]], None] | None = None

    def all(self) -> tuple[BrokerAddress, ...]:
        """Return the addresses of all brokers, this one's first, as many as a peer takes."""
        brokers = (self._members.own, *self._members.others())[: limits.MAX_BROKERS]
        return tuple(_address(one) for one in brokers)

    def changed(self) -> None:
        """Take note that a broker has come or gone, or shows another certificate."""
        if not self._is_due:
            self._is_due = True
            self._hub.timers.schedule(TOLD_SECONDS, self._tell)

    def _tell(self) -> None:
        self._is_due = False
        if self.write is not None:
            others = self._members.others()[: limits.MAX_BROKERS]
            self.write(known_endpoints((one.url, one.fingerprints) for one in others))
        self._hub.connections.turns.begin(self._welcoming(tuple(self._hub.links.values())), NOBODY)

    def _welcoming(self, links: tuple[RankLink | TerminalLink, ...]) -> Iterator[None]:
        """Welcome those again who have been welcomed: a welcome names all brokers."""
        for link in links:
            if link.connection.number not in self._hub.links:
                continue
            if not isinstance(link, RankLink):
                if link.name is not None:
                    self._hub.welcome(link.connection, role=link.role.value)
            elif link.rank is not None:
                self._hub.welcome(link.connection, link.rank.address, link.rank.child)
            yield


def _address(presence: Presence) -> BrokerAddress:
    return BrokerAddress(url=presence.url, fingerprints=presence.fingerprints[: limits.MAX_PINS])
