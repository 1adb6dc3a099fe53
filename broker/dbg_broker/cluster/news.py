"""News between brokers: what the ranks of a job that are at several brokers have to know of each other.

Each broker tells all others the facts of its own ranks as they change, and all of them again to who asks. A broker that
ends hands the ranks that have ended over: they never register again.
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
from dbg_broker.ranks.elsewhere import RankFact, fact_of
from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.table import RankTable, Watcher
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankState
from dbg_wire.records.record import Key, Real, Record

logger = logging.getLogger("dbg_broker")

SUBJECT = "dbg_broker.to"
"""Subjects of news: ``all`` or the receiver's name follows, and then the sender's."""

TELL_SECONDS = 0.02
"""Seconds for which changes are gathered: ranks that are held do not notice them."""

AT_ONCE = 128
"""Facts in one message: they take half a millisecond."""

PAGE_BYTES = 128 * limits.KIB
"""Bytes after which a message of ended ranks ends: an eighth of what NATS carries in one, as its last may be large."""

FORGET_SECONDS = 5.0
"""Seconds for which a rank that is at another broker by now stays listed here as lost: terminals follow it by then."""

MAX_NEWS = 4096
"""Elements of one message."""


class News(Record, array_like=True):
    """What one broker tells: ``facts`` of its ranks, keys that it lists no more, ranks that have ended.

    All times are by the sender's clock, which says ``at`` now. A rank's registration has a digest in place of the
    secret. ``asks`` asks for all facts: the sender may have missed some.
    """

    at: Real
    facts: Annotated[tuple[RankFact, ...], msgspec.Meta(max_length=MAX_NEWS)] = ()
    gone: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MAX_NEWS)] = ()
    ended: Annotated[tuple[RankRecord, ...], msgspec.Meta(max_length=MAX_NEWS)] = ()
    asks: bool = False


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(News)


class NewsDesk(Watcher):
    """The news that this broker tells, and those that it hears."""

    def __init__(self, table: RankTable, timers: Timers, nats: Nats, name: str) -> None:
        self._table, self._timers, self._nats, self._name = table, timers, nats, name
        self._told: dict[str, RankFact] = {}
        """The facts of this broker's ranks that others know, or are being told."""
        self._dirty: dict[str, None] = {}

    # ---------------------------------------------------------------------------------------------------- what it tells

    def rank_changed(self, rank: RankRecord) -> None:
        """Tell the others of a change of an own rank, if it is news for them."""
        if self._table.elsewhere.has(rank):
            return
        fact = fact_of(rank)
        known = self._told.get(fact.key)
        if fact != known and (known is not None or fact.is_news):
            self._told[fact.key] = fact
            self._note(fact.key)

    def rank_gone(self, key: str) -> None:
        """Tell the others that a rank is no longer listed."""
        if self._told.pop(key, None) is not None:
            self._note(key)

    def tell_all(self, *, asks: bool = False) -> None:
        """Tell all facts again, as somebody does not know them; ``asks`` for those of the others."""
        if asks:
            self._publish("all", asks=True)
        for key in self._told:
            self._note(key)

    def _note(self, key: str) -> None:
        if not self._dirty:
            self._timers.schedule(TELL_SECONDS, self._tell)
        self._dirty[key] = None

    def _tell(self) -> None:
        keys = tuple(islice(self._dirty, AT_ONCE))
        for key in keys:
            del self._dirty[key]
        facts = tuple(self._told[key] for key in keys if key in self._told)
        self._publish("all", facts=facts, gone=tuple(key for key in keys if key not in self._told))
        if self._dirty:
            self._timers.schedule(0, self._tell)

    def hand_over(self, to: str) -> None:
        """Hand the ranks that have ended, or are lost, over to another broker."""
        for page in self._pages():
            self._publish(to, ended=page)

    def _pages(self) -> Iterator[tuple[RankRecord, ...]]:
        page, size = list[RankRecord](), 0
        for rank in self._table.registry.ranks():
            if not rank.is_live and not self._table.elsewhere.has(rank):
                # What its debugger asked last is for nobody once the rank has ended.
                report = rank.report.replace(prompt=None)
                page.append(replace(rank, registration=rank.registration.replace(report=report), report=report))
                size += len(_encoder.encode(page[-1]))
            if size >= PAGE_BYTES:
                yield tuple(page)
                page, size = [], 0
        yield tuple(page)

    def _publish(self, to: str, **told: Any) -> None:
        self._nats.publish(f"{SUBJECT}.{to}.{self._name}", _encoder.encode(News(at=self._timers.clock(), **told)))

    # ---------------------------------------------------------------------------------------------------- what it hears

    async def listen(self) -> None:
        """Hear the others from now on. Raise an error of NATS' client."""
        for receiver in ("all", self._name):
            await self._nats.subscribe(f"{SUBJECT}.{receiver}.*", self._receive)

    def _receive(self, sender: str, data: bytes) -> None:
        if sender == self._name:
            return
        try:
            news = _decoder.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            logger.warning("the broker %s is not understood: %s", printable(sender), printable(str(error)))
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
            self.tell_all()

    def losing(self, broker: str) -> Iterator[None]:
        """Enter the ranks of a broker that has gone as lost until they register again, one in each step."""
        now = self._timers.clock()
        for fact in self._table.elsewhere.told_by(broker):
            # A rank may have registered elsewhere since the last step.
            if fact.is_live and self._table.elsewhere.find(fact.key) is fact:
                self._enter(broker, fact.replace(state=RankState.LOST, ended=now, left=now))
            yield

    def forget(self, broker: str) -> None:
        """Forget what a broker has told that has not come back: its ranks are with others by now, or have ended."""
        for fact in self._table.elsewhere.told_by(broker):
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
        """Close the connection of a rank that another broker has by now; terminals follow it, then it is forgotten."""
        for links in (self._table.links, self._table.guards):
            if (link := links.get(rank.key)) is not None:
                logger.info("%s (%s) is at another broker now", rank.address, printable(rank.key))
                link.connection.close(CloseCode.REPLACED, "another broker has this rank")
        self._timers.schedule(FORGET_SECONDS, lambda: self._forget(rank))

    def _forget(self, rank: RankRecord) -> None:
        table = self._table
        if table.registry.find(rank.key) is rank and not rank.is_live and table.elsewhere.has(rank):
            table.registry.forget(rank)
            table.forget(rank.key, f"{rank.address} is at another broker now")
