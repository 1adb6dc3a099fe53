"""Mirror: the ranks of other brokers, entered among this broker's own as their brokers tell of them.

So the list, the choice of targets, holds, kept ranks and first failures are as if all ranks were connected here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

from dbg_broker.hub import departures
from dbg_broker.hub.cluster.messages import MirroredEnd, MirroredRank, MirrorPage, Sync
from dbg_broker.hub.links import NOBODY
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.rank_record import Elsewhere, RankEnd, RankRecord
from dbg_broker.ranks.registry import ITS_BROKER_IS_GONE
from dbg_wire.errors import printable
from dbg_wire.records.ranks import RankState

if TYPE_CHECKING:
    from dbg_broker.hub.cluster.cluster import Cluster
    from dbg_broker.hub.state import Hub

logger = logging.getLogger("dbg_broker")

MAX_PAGES = 1024
"""Pages of one broker that wait to be entered, 128 MiB: of more all are dropped, and it is asked for its ranks anew."""

SYNC_SECONDS = 5.0
"""Seconds without a page after which a broker is asked for its ranks again.

Brokers come to a NATS that is back one after the other, and what is said to one before it is there is lost.
"""


class Mirror:
    """The ranks of other brokers. ``moved`` is called with the key of a rank whose broker is another one now."""

    def __init__(self, hub: Hub, cluster: Cluster, moved: Callable[[str], None]) -> None:
        self._hub, self._cluster = hub, cluster
        self._moved = moved
        self._waiting: dict[str, deque[MirrorPage]] = {}
        self._named: dict[str, set[str]] = {}
        """The ranks that a broker has named since it was asked for all."""
        self._asked: dict[str, int] = {}
        """The number of the last time that it was."""
        self._due: dict[str, float] = {}
        """When it is asked again, as it has not told all."""
        self._numbers = count(1)
        cluster.on(MirrorPage, self._receive)

    # ---------------------------------------------------------------------------------------------------------- brokers

    def ask(self, broker: str) -> None:
        """Ask a broker for all its ranks; those that it does not name are gone."""
        self._waiting.pop(broker, None)
        self._named[broker] = set()
        self._asked[broker] = number = next(self._numbers)
        self._due[broker] = self._hub.timers.clock() + SYNC_SECONDS
        self._cluster.send(broker, Sync(number=number))

    def sweep(self, now: float) -> None:
        """Ask those again that have not told all, and of which nothing comes."""
        for broker in [broker for broker, due in self._due.items() if now >= due and broker not in self._waiting]:
            self.ask(broker)

    def gone(self, broker: str) -> None:
        """Note that a broker has gone: its ranks are lost until they register anew.

        Those that have ended never do; each of them becomes a rank of another broker, which tells newcomers of it.
        """
        self._waiting.pop(broker, None)
        self._named.pop(broker, None)
        self._asked.pop(broker, None)
        self._due.pop(broker, None)
        hub, now = self._hub, self._hub.timers.clock()
        for rank in self._ranks_of(broker):
            hub.ranks.registry.orphaned(rank, now)
            if rank.state is RankState.LOST:
                departures.look_for_process(hub, rank)
            hub.rank_changed(rank)
            for finished in hub.ranks.questions.rank_ended(rank.key, ITS_BROKER_IS_GONE):
                hub.deliver(finished)
        for rank in [one for one in hub.ranks.registry.ranks() if one.is_orphan and one.state is RankState.EXITED]:
            if self._cluster.members.inherits(rank.key):
                self._cluster.adopt(rank)

    def unheard(self) -> None:
        """Note that nothing is heard of other brokers' ranks."""
        for rank in self._ranks_of(None):
            if rank.is_live and rank.state is not RankState.UNRESPONSIVE:
                self._hub.ranks.registry.fell_silent(rank)
                self._hub.rank_changed(rank)

    def _ranks_of(self, broker: str | None) -> list[RankRecord]:
        """Return the ranks of a broker, or those of all other ones."""
        return [rank for rank in self._hub.ranks.registry.ranks() if rank.owner and broker in (None, rank.owner)]

    # ------------------------------------------------------------------------------------------------------------ pages

    def _receive(self, sender: str, page: MirrorPage) -> None:
        if sender in self._due:
            self._due[sender] = self._hub.timers.clock() + SYNC_SECONDS
        pages = self._waiting.get(sender)
        if pages is None:
            self._waiting[sender] = pages = deque((page,))
            self._hub.connections.turns.begin(self._entering(sender, pages), NOBODY)
        elif len(pages) >= MAX_PAGES:
            logger.warning("the broker %s tells more of its ranks than can be entered", printable(sender))
            self.ask(sender)
        else:
            pages.append(page)

    def _entering(self, sender: str, pages: deque[MirrorPage]) -> Iterator[None]:
        """Enter the pages of a broker in their order; those that are not of use any more have been taken away."""
        while self._waiting.get(sender) is pages:
            if not pages:
                del self._waiting[sender]
                return
            page = pages.popleft()
            named = self._named.get(sender)
            for told in page.ranks:
                if named is not None:
                    named.add(told.registration.identity.key)
                self._enter(sender, told)
                yield
                if self._waiting.get(sender) is not pages:
                    return
            for key in page.gone:
                self._forget(sender, key)
            if page.ends and page.ends == self._asked.get(sender):
                self._end_sync(sender)
            yield

    def _end_sync(self, sender: str) -> None:
        self._due.pop(sender, None)
        named = self._named.pop(sender, None)
        if named is not None:
            for rank in self._ranks_of(sender):
                if rank.key not in named:
                    self._forget(sender, rank.key)

    def _forget(self, sender: str, key: str) -> None:
        rank = self._hub.ranks.registry.find(key)
        if rank is not None and rank.owner == sender:
            self._hub.ranks.registry.forget(rank)
            departures.forget(self._hub, key)

    def _enter(self, sender: str, told: MirroredRank) -> None:
        hub, key = self._hub, told.registration.identity.key
        known = hub.ranks.registry.find(key)
        if not self._cluster.members.find(sender) or not is_newer(told, sender, known):
            return
        has_moved = known is not None and known.owner != sender
        if known is not None and known.elsewhere is None:
            self._let_go(known)
        rank = record_of(told, sender, hub.timers.clock())
        hub.readdress(hub.ranks.registry.mirror(rank))
        hub.rank_changed(rank)
        if rank.state is RankState.EXITED:
            departures.note_failure(hub, rank)
        if has_moved:
            logger.info("%s (%s) is at the broker %s now", rank.address, printable(key), printable(sender))
            self._moved(key)

    def _let_go(self, rank: RankRecord) -> None:
        """Close the link of a rank that another broker has by now."""
        hub = self._hub
        link = hub.ranks.links.get(rank.key)
        if link is not None:
            link.rank = None
            hub.ranks.left(rank.key)
            link.connection.close(CloseCode.REPLACED, "another broker has this rank")
        self._cluster.owners.let_go(rank.key)
        for finished in hub.ranks.questions.rank_ended(rank.key, "it is at another broker now"):
            hub.deliver(finished)


def is_newer(told: MirroredRank, sender: str, known: RankRecord | None) -> bool:
    """Tell whether what a broker says of a rank counts: the fencing token decides between two brokers."""
    if known is None:
        return told.fence > 0
    is_of_sender = known.elsewhere is not None and known.elsewhere.owner == sender
    return told.fence >= known.fence if is_of_sender else told.fence > known.fence


def record_of(told: MirroredRank, sender: str, now: float) -> RankRecord:
    """Return the record of a rank of another broker, with its times by this broker's clock."""
    said, ages = told.registration, told.ages
    return RankRecord(
        registration=said,
        report=said.report,
        state=told.state,
        child=said.child,
        since=now - ages.since,
        heard=now - ages.heard,
        entered=now - ages.entered,
        end=RankEnd() if told.end is None else _end_of(told.end, now),
        waits_in=told.waits_in,
        elsewhere=Elsewhere(sender, told.seats),
        fence=told.fence,
        _frames=() if told.where is None else (told.where,),
    )


def _end_of(told: MirroredEnd, now: float) -> RankEnd:
    return RankEnd(
        at=now - told.ago,
        left=now - told.left,
        exit=told.exit,
        died=told.died,
        detail=told.detail,
        signal=told.signal,
        status=told.status,
        core=told.core,
        cause=told.cause,
        signal_told=told.signal_told,
    )
