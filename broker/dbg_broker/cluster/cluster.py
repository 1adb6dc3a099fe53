"""One broker's part in a cluster: members, tokens and news."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from dbg_broker.broker import Broker
from dbg_broker.cluster.members import HEARTBEAT_SECONDS, HERE, Members, Presence, read_presence
from dbg_broker.cluster.nats import Nats
from dbg_broker.cluster.news import RankNews
from dbg_broker.cluster.tokens import SharedTokens
from dbg_broker.welcome import Welcomes
from dbg_dial.endpoint import Endpoint, known_endpoints
from dbg_wire import limits
from dbg_wire.errors import PeerError, printable
from dbg_wire.messages import BrokerAddress

logger = logging.getLogger("dbg_broker")

ANNOUNCE_SECONDS = 0.5
"""How long changes of the members are collected before peers get them, in seconds. Brokers of a cluster often start
together, so many changes become one message."""


class Cluster:
    """The cluster of one broker. Methods must be called in the event loop's thread; only coroutines block."""

    def __init__(self, broker: Broker, welcomes: Welcomes, nats: Nats, own: Presence, tokens: SharedTokens) -> None:
        self._broker, self._welcomes, self._nats = broker, welcomes, nats
        self._timers = broker.timers
        self.members = Members(own, broker.timers, self._came, self._gone)
        self.news = RankNews(broker.ranks, broker.timers, nats, own.name)
        self.tokens = tokens
        self.write: Callable[[tuple[Endpoint, ...]], None] = lambda _others: None
        """Called with the endpoints of the other brokers, to write them to files of the home."""
        self._sharing: asyncio.Task[None] | None = None
        self._is_there = True
        self._is_due = False
        broker.ranks.add_watcher(self.news)
        welcomes.others = self
        nats.is_back = self._is_back
        broker.journal.broker = own.name

    async def start(self) -> None:
        """Join the other brokers. Raise CantJoin if no NATS server accepts the connection."""
        await self._nats.open()
        await self._nats.subscribe(f"{HERE}.*", self._presence_changed)
        await self.tokens.listen()
        await self.news.listen()
        self._sharing = asyncio.create_task(self.tokens.run())
        self._beat()

    def leave(self) -> None:
        """Hand ended and lost ranks over to another broker, and announce the end of this one.

        The peers are disconnected next and connect to the other brokers.
        """
        heir = self.members.chosen(self.members.own.name)
        if heir is not None:
            self.news.hand_over(heir.name)
        self._is_there = False
        self._nats.publish(f"{HERE}.{self.members.own.name}", b"")

    async def end(self) -> None:
        """Close the connection to NATS, after all messages were sent."""
        self._is_there = False
        if self._sharing is not None:
            self._sharing.cancel()
        await self._nats.close()

    # --------------------------------------------------------------------------------------------------------- outgoing

    def addresses(self) -> tuple[BrokerAddress, ...]:
        """Return the addresses of all brokers, this one's first."""
        return tuple(one.address for one in self.members.all())

    @property
    def nats_silent(self) -> float | None:
        """Seconds without an answer from NATS, or None while it is connected or within the grace time."""
        lost_at = self._nats.lost_at
        return None if lost_at is None or not self._nats.is_gone else round(self._timers.clock() - lost_at, 3)

    def shows(self, fingerprint: str) -> None:
        """Publish a new fingerprint, because this broker serves another certificate."""
        self.members.own = self.members.own.replace(fingerprint=fingerprint)
        self._members_changed()

    # --------------------------------------------------------------------------------------------------------- incoming

    def _beat(self) -> None:
        """Send a heartbeat, and check the heartbeats of the others."""
        if self._is_there:
            self._nats.publish(f"{HERE}.{self.members.own.name}", self.members.value())
            self.members.sweep(is_heard=self._nats.lost_at is None)
            self._timers.schedule(HEARTBEAT_SECONDS, self._beat)

    def _is_back(self) -> None:
        """Publish and request everything again, because messages may have been lost."""
        if self._is_there:
            self._nats.publish(f"{HERE}.{self.members.own.name}", self.members.value())
            self.news.announce_all(asks=True)
            self.tokens.announce()

    def _presence_changed(self, name: str, value: bytes) -> None:
        if not value:
            self.members.left(name)
            return
        try:
            self.members.saw(read_presence(value))
        except PeerError as error:
            logger.warning("broker %s: can't decode its message: %s", printable(name), printable(error.reason))

    def _came(self, name: str) -> None:
        logger.info("broker %s joined", printable(name))
        self.news.announce_all()
        self._members_changed()

    def _gone(self, name: str) -> None:
        logger.info("broker %s is gone", printable(name))
        self._broker.turns.start(self.news.losing(name))
        self._timers.schedule(limits.ENDED_RANK_SECONDS, lambda: self.news.forget(name))
        self._members_changed()

    def _members_changed(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._timers.schedule(ANNOUNCE_SECONDS, self._announce_members)

    def _announce_members(self) -> None:
        self._is_due = False
        self.tokens.announce()
        others = self.members.all()[1:]
        self.write(known_endpoints((one.url, one.fingerprint) for one in others))
        self._broker.turns.start(self._welcomed_again())

    def _welcomed_again(self) -> Iterator[None]:
        """Send a new welcome to each peer that already got one, because a welcome names all brokers."""
        for link in tuple(self._broker.from_ranks.links.values()):
            if (rank := link.rank) is not None:
                self._welcomes.send(link.connection, rank.address, rank.child)
            yield
        for terminal in tuple(self._broker.terminals.links.values()):
            if terminal.name is not None:
                self._welcomes.send(terminal.connection, role=terminal.role.value)
            yield
