"""Mirror (replication): what each broker lists of the ranks of the others, and what it tells them of its own.

A change feed tells the last state of the ranks that have changed. Each receiver enters it among its own ranks, so that
the list, the choice of targets, holds, kept ranks and first failures are as if all ranks were connected there.
"""

from __future__ import annotations

import logging
import typing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import TYPE_CHECKING

import msgspec

from dbg_broker.hub import departures
from dbg_broker.hub.cluster.messages import MirroredRank, MirrorPage, Sync
from dbg_broker.hub.links import NOBODY
from dbg_broker.net.websocket import CloseCode
from dbg_broker.ranks.rank_record import Elsewhere, RankEnd, RankRecord
from dbg_broker.ranks.registry import ITS_BROKER_IS_GONE
from dbg_wire import limits
from dbg_wire.errors import printable
from dbg_wire.records.bounds import MAX_AGE
from dbg_wire.records.ranks import RankState, SeatCounts

if TYPE_CHECKING:
    from dbg_broker.hub.cluster.cluster import Cluster
    from dbg_broker.hub.state import Hub

PAGE_BYTES = 128 * limits.KIB
"""Bytes after which a page ends: a quarter of what NATS carries in one message, since its last rank may be large."""

STEP_RANKS = 128
"""Ranks that are told in one step: they take half a millisecond."""

_encoder = msgspec.msgpack.Encoder()


class ChangeFeed:
    """Change feed of this broker's ranks to the other brokers."""

    def __init__(self, hub: Hub, cluster: Cluster) -> None:
        self._hub, self._cluster = hub, cluster
        self._dirty: dict[str, None] = {}
        self._is_telling = False
        cluster.on(Sync, self._sync)

    def changed(self, key: str) -> None:
        """Note that what the others know of a rank has changed, if it is one of this broker's."""
        rank = self._hub.ranks.registry.find(key)
        # Nobody hears of a rank before this broker's claim of it has succeeded; an orphan is told by nobody.
        if rank is not None and (rank.elsewhere is not None or not rank.fence):
            return
        if not len(self._cluster.members):
            # Whoever comes asks for all ranks.
            return
        if not self._dirty and not self._is_telling:
            self._hub.timers.schedule(0, self._tell)
        self._dirty[key] = None

    def _tell(self) -> None:
        self._is_telling = True
        dirty, self._dirty = self._dirty, {}
        self._hub.connections.turns.begin(self._telling(dirty), NOBODY)

    def _telling(self, keys: Iterable[str]) -> Iterator[None]:
        try:
            # What NATS does not take is told when it is back, as all others ask for all ranks then.
            yield from self._pages(keys, self._cluster.publish)
        finally:
            self._is_telling = False
            if self._dirty:
                self._hub.timers.schedule(0, self._tell)

    def _sync(self, sender: str, message: Sync) -> None:
        """Tell a broker all ranks, in slices; what changes meanwhile is told to all."""
        self._hub.connections.turns.begin(self._telling_all(sender, message.number), NOBODY)

    def _telling_all(self, to: str, number: int) -> Iterator[None]:
        def send(page: MirrorPage) -> bool:
            return self._cluster.send(to, page)

        keys = [rank.key for rank in self._hub.ranks.registry.ranks() if rank.elsewhere is None]
        yield from self._pages(keys, send)
        send(MirrorPage(ends=number))

    def _pages(self, keys: Iterable[str], send: Callable[[MirrorPage], bool]) -> Iterator[None]:
        """Send what is true of these ranks, some of them in each step.

        What is read of a rank is sent in the same step: a change that is told meanwhile must not be overtaken by it.
        """
        left = iter(keys)
        while some := tuple(islice(left, STEP_RANKS)):
            for page in self._pages_of(some):
                send(page)
            yield

    def _pages_of(self, keys: Iterable[str]) -> Iterator[MirrorPage]:
        told: list[msgspec.Raw] = []
        gone: list[str] = []
        size = 0
        for key in keys:
            rank = self._hub.ranks.registry.find(key)
            if rank is None:
                gone.append(key)
                size += len(key)
            elif rank.elsewhere is None and rank.fence:
                told.append(msgspec.Raw(_encoder.encode(self._mirrored(rank))))
                size += len(told[-1])
            if size >= PAGE_BYTES:
                yield _page(told, gone)
                told, gone, size = [], [], 0
        if told or gone:
            yield _page(told, gone)

    def _mirrored(self, rank: RankRecord) -> MirroredRank:
        seats = self._hub.terminals.seats.counts_at(rank.key)
        return mirrored(rank, seats, self._hub.timers.clock())


def _page(told: list[msgspec.Raw], gone: list[str]) -> MirrorPage:
    # The ranks are encoded already, each by itself, so that the size of the page is known.
    return MirrorPage(ranks=typing.cast(tuple[MirroredRank, ...], tuple(told)), gone=tuple(gone))


def mirrored(rank: RankRecord, seats: SeatCounts, now: float) -> MirroredRank:
    """Return what is true of a rank now, as it is told to other brokers."""

    def age(at: float) -> float:
        return min(max(0.0, now - at), MAX_AGE)

    report, end = rank.report, rank.end
    if report.user_breakpoints or report.prompt is not None:
        report = report.replace(user_breakpoints=(), prompt=None)
    return MirroredRank(
        registration=rank.registration.replace(child=rank.child, report=report),
        state=rank.state,
        fence=rank.fence,
        since=age(rank.since),
        heard=age(rank.heard),
        entered=age(rank.entered),
        waits_in=rank.waits_in,
        end=None if end == RankEnd() else replace(end, at=age(end.at), left=age(end.left)),
        seats=seats,
        where=rank.frames[-1] if rank.state is RankState.EXITED and rank.frames else None,
    )


logger = logging.getLogger("dbg_broker")

MAX_PAGES = 1024
"""Pages of one broker that wait to be entered, 128 MiB: of more all are dropped, and it is asked for its ranks anew."""

SYNC_SECONDS = 5.0
"""Seconds without a page after which a broker is asked for its ranks again.

Brokers come to a NATS that is back one after the other, and what is said to one before it is there is lost.
"""


@dataclass(slots=True, eq=False)
class _Source:
    """What is known of the ranks of another broker since it was asked for all of them; it is asked anew with another.

    ``due`` is when it is asked again, as long as it has not told all, and ``named`` are the ranks that it has named
    until then. ``pages`` wait to be entered; None if none is being entered.
    """

    number: int
    due: float | None
    named: set[str] = field(default_factory=set)
    pages: deque[MirrorPage] | None = None


class Mirror:
    """The ranks of other brokers."""

    def __init__(self, hub: Hub, cluster: Cluster) -> None:
        self._hub, self._cluster = hub, cluster
        self._sources: dict[str, _Source] = {}
        self._numbers = count(1)
        cluster.on(MirrorPage, self._receive)

    # ---------------------------------------------------------------------------------------------------------- brokers

    def ask(self, broker: str) -> None:
        """Ask a broker for all its ranks; those that it does not name are gone."""
        number = next(self._numbers)
        self._sources[broker] = _Source(number, self._hub.timers.clock() + SYNC_SECONDS)
        self._cluster.send(broker, Sync(number=number))

    def sweep(self, now: float) -> None:
        """Ask those again that have not told all, and of which nothing comes."""
        for broker, source in tuple(self._sources.items()):
            if source.due is not None and now >= source.due and source.pages is None:
                self.ask(broker)

    def gone(self, broker: str) -> None:
        """Note that a broker has gone: its ranks are lost until they register anew.

        Those that have ended never do; each of them becomes a rank of another broker, which tells newcomers of it.
        """
        self._sources.pop(broker, None)
        hub, now = self._hub, self._hub.timers.clock()
        for rank in self._ranks_of(broker):
            hub.ranks.registry.orphaned(rank, now)
            if rank.state is RankState.LOST:
                departures.look_for_process(hub, rank)
            hub.rank_changed(rank)
            hub.deliver(*hub.ranks.questions.rank_ended(rank.key, ITS_BROKER_IS_GONE))
        hub.connections.turns.begin(self._inheriting(), NOBODY)

    def _inheriting(self) -> Iterator[None]:
        """Adopt the ended ranks of brokers that have gone, those of which this broker is the one to tell."""
        registry, members = self._hub.ranks.registry, self._cluster.members
        for key in [rank.key for rank in registry.ranks() if rank.state is RankState.EXITED]:
            rank = registry.find(key)
            if rank is not None and rank.is_orphan and rank.state is RankState.EXITED and members.inherits(key):
                self._cluster.adopt(rank)
                yield

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
        source = self._sources.get(sender)
        if source is None:
            return
        if source.due is not None:
            source.due = self._hub.timers.clock() + SYNC_SECONDS
        if source.pages is None:
            source.pages = deque((page,))
            self._hub.connections.turns.begin(self._entering(sender, source, source.pages), NOBODY)
        elif len(source.pages) >= MAX_PAGES:
            logger.warning("the broker %s tells more of its ranks than can be entered", printable(sender))
            self.ask(sender)
        else:
            source.pages.append(page)

    def _entering(self, sender: str, source: _Source, pages: deque[MirrorPage]) -> Iterator[None]:
        """Enter the pages of a broker in their order, as long as it is not asked anew."""
        while pages and self._sources.get(sender) is source:
            page = pages.popleft()
            for told in page.ranks:
                if source.due is not None:
                    source.named.add(told.registration.identity.key)
                self._enter(sender, told)
                yield
                if self._sources.get(sender) is not source:
                    return
            for key in page.gone:
                self._forget(sender, key)
            if page.ends == source.number:
                self._end_sync(sender, source)
            yield
        source.pages = None

    def _end_sync(self, sender: str, source: _Source) -> None:
        named, source.due, source.named = source.named, None, set()
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
            self._cluster.moved(key)

    def _let_go(self, rank: RankRecord) -> None:
        """Close the link of a rank that another broker has by now."""
        hub = self._hub
        link = hub.ranks.links.get(rank.key)
        if link is not None:
            link.rank = None
            hub.ranks.left(rank.key)
            link.connection.close(CloseCode.REPLACED, "another broker has this rank")
        self._cluster.owners.let_go(rank.key)
        hub.deliver(*hub.ranks.questions.rank_ended(rank.key, "it is at another broker now"))


def is_newer(told: MirroredRank, sender: str, known: RankRecord | None) -> bool:
    """Tell whether what a broker says of a rank counts: the fencing token decides between two brokers."""
    if known is None:
        return told.fence > 0
    is_of_sender = known.elsewhere is not None and known.elsewhere.owner == sender
    return told.fence >= known.fence if is_of_sender else told.fence > known.fence


def record_of(told: MirroredRank, sender: str, now: float) -> RankRecord:
    """Return the record of a rank of another broker, with its times by this broker's clock."""
    said, end = told.registration, told.end
    return RankRecord(
        registration=said,
        report=said.report,
        state=told.state,
        child=said.child,
        since=now - told.since,
        heard=now - told.heard,
        entered=now - told.entered,
        end=RankEnd() if end is None else replace(end, at=now - end.at, left=now - end.left),
        waits_in=told.waits_in,
        elsewhere=Elsewhere(sender, told.seats),
        fence=told.fence,
        _frames=() if told.where is None else (told.where,),
    )
