"""News between brokers: facts about ranks, for ranks of the same job that are connected to other brokers.

Each broker sends the facts of its own ranks to all others as they change. If a broker asks, the others send all their
facts again. A broker that shuts down hands over its ended ranks, because they never register again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any

import msgspec

from dbg_broker.cluster.nats import Nats
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.remote_ranks import RankFact, fact_of
from dbg_broker.ranks.table import RankTable, Watcher
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import Key, Real, Record

logger = logging.getLogger("dbg_broker")

SUBJECT = "dbg_broker.to"
"""Prefix of the subjects of news, followed by ``all`` or the receiver's name, and then the sender's name."""

TELL_SECONDS = 0.02
"""How long changes are collected, in seconds: held ranks do not notice the delay."""

AT_ONCE = 128
"""Maximum number of rank facts in one message. So many occupy the event loop for half a millisecond."""

PAGE_BYTES = 128 * limits.KIB
"""Size after which no rank is added to a message of ended ranks, in bytes. This size is an eighth of the limit of
NATS, because the last rank of a message may be large.
"""

FORGET_SECONDS = 5.0
"""How long a rank that moved to another broker stays listed here as lost, in seconds, until its terminals have
followed.
"""

MAX_NEWS = 4096
"""Maximum number of elements in each part of a message."""


class News(Record, array_like=True):
    """Message from one broker: ``facts`` of its ranks, keys that are ``gone`` from its list, and ``ended`` ranks.

    All times are by the sender's clock, which showed ``at`` when the message was sent. A rank's registration contains a
    digest instead of the secret. With ``asks`` the sender requests all facts, because it may have missed some.
    """

    at: Real
    facts: Annotated[tuple[RankFact, ...], msgspec.Meta(max_length=MAX_NEWS)] = ()
    gone: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MAX_NEWS)] = ()
    ended: Annotated[tuple[RankRecord, ...], msgspec.Meta(max_length=MAX_NEWS)] = ()
    asks: bool = False


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(News)


class RankNews(Watcher):
    """Publishes the news of this broker, and handles the news of the others."""

    def __init__(self, table: RankTable, timers: Timers, nats: Nats, name: str) -> None:
        self._table, self._timers, self._nats, self._name = table, timers, nats, name
        self._facts: dict[str, RankFact] = {}
        """Facts of this broker's ranks that the others know or are about to receive."""
        self._dirty: dict[str, None] = {}

    # --------------------------------------------------------------------------------------------------------- outgoing

    def rank_changed(self, rank: RankRecord) -> None:
        """Publish a change of an own rank if it matters to other brokers."""
        if self._table.elsewhere.has(rank):
            return
        fact = fact_of(rank)
        known = self._facts.get(fact.key)
        if fact != known and (known is not None or fact.is_news):
            self._facts[fact.key] = fact
            self._note(fact.key)

    def rank_gone(self, key: str) -> None:
        """Publish that a rank is no longer listed."""
        if self._facts.pop(key, None) is not None:
            self._note(key)

    def announce_all(self, *, asks: bool = False) -> None:
        """Publish all facts for a broker that does not know them; with ``asks`` request the facts of other brokers."""
        if asks:
            self._publish("all", asks=True)
        for key in self._facts:
            self._note(key)

    def _note(self, key: str) -> None:
        if not self._dirty:
            self._timers.schedule(TELL_SECONDS, self._announce)
        self._dirty[key] = None

    def _announce(self) -> None:
        keys = tuple(islice(self._dirty, AT_ONCE))
        for key in keys:
            del self._dirty[key]
        facts = tuple(self._facts[key] for key in keys if key in self._facts)
        self._publish("all", facts=facts, gone=tuple(key for key in keys if key not in self._facts))
        if self._dirty:
            self._timers.schedule(0, self._announce)

    def hand_over(self, to: str) -> None:
        """Hand ranks that have ended or are lost over to another broker."""
        for page in self._pages():
            self._publish(to, ended=page)

    def _pages(self) -> Iterator[tuple[RankRecord, ...]]:
        page, size = list[RankRecord](), 0
        for rank in self._table.registry.ranks():
            if not rank.is_live and not self._table.elsewhere.has(rank):
                # The rank has ended, so nobody can answer the prompt of its debugger.
                report = rank.report.replace(prompt=None)
                page.append(replace(rank, registration=rank.registration.replace(report=report), report=report))
                size += len(_encoder.encode(page[-1]))
            if size >= PAGE_BYTES:
                yield tuple(page)
                page, size = [], 0
        yield tuple(page)

    def _publish(self, to: str, **message: Any) -> None:
        self._nats.publish(f"{SUBJECT}.{to}.{self._name}", _encoder.encode(News(at=self._timers.clock(), **message)))

    # --------------------------------------------------------------------------------------------------------- incoming

    async def listen(self) -> None:
        """Subscribe to the news of other brokers. Raise an error of NATS' client."""
        for receiver in ("all", self._name):
            await self._nats.subscribe(f"{SUBJECT}.{receiver}.*", self._receive)

    def _receive(self, sender: str, data: bytes) -> None:
        if sender == self._name:
            return
        try:
            news = _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            logger.warning("broker %s: can't decode its message: %s", printable(sender), printable(str(error)))
            return
        later = self._timers.clock() - news.at
        for fact in news.facts:
            self._enter(sender, fact.delayed(later))
        for key in news.gone:
            self._table.forget_fact(sender, key)
        for rank in news.ended:
            rank.delay(later)
            self._table.take_over(rank)
            self.rank_changed(rank)
        if news.asks:
            self.announce_all()

    def losing(self, broker: str) -> Iterator[None]:
        """Mark the ranks of a lost broker as lost, until the ranks register again. Each step handles one rank."""
        now = self._timers.clock()
        for fact in self._table.elsewhere.reported_by(broker):
            # A rank may have registered elsewhere since the last step.
            if fact.is_live and self._table.elsewhere.find(fact.key) is fact:
                self._enter(broker, fact.replace(state=RankState.LOST, ended=now, left=now))
            yield

    def forget(self, broker: str) -> None:
        """Forget the facts of a broker that did not come back: its ranks are at other brokers or have ended."""
        for fact in self._table.elsewhere.reported_by(broker):
            if not fact.is_live:
                self._table.forget_fact(broker, fact.key)

    def _enter(self, sender: str, fact: RankFact) -> None:
        own = self._table.registry.find(fact.key)
        if own is not None and own.registration.epoch >= fact.epoch:
            return
        if self._table.elsewhere.enter(sender, fact):
            if own is not None:
                self._let_go(own)
            self._table.hear(fact)

    def _let_go(self, rank: RankRecord) -> None:
        """Close the connection of a rank that moved to another broker; forget the rank after its terminals followed."""
        for links in (self._table.links, self._table.guards):
            if (link := links.get(rank.key)) is not None:
                logger.info("%s (%s) moved to another broker", rank.address, printable(rank.key))
                link.connection.close(CloseCode.REPLACED, "this rank is connected to another broker")
        self._timers.schedule(FORGET_SECONDS, lambda: self._forget(rank))

    def _forget(self, rank: RankRecord) -> None:
        table = self._table
        if table.registry.find(rank.key) is rank and not rank.is_live and table.elsewhere.has(rank):
            table.registry.forget(rank)
            table.forget(rank.key, f"{rank.address} has moved to another broker")
