"""Change feed: what is true of this broker's ranks, as it is told to the other brokers.

Changes wait as keys of ranks, so that what waits is bounded by the number of ranks. Once in a round of the event loop
they become pages, each with the last state of its ranks.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from dbg_broker.hub.cluster.messages import MirroredAges, MirroredRank, MirrorPage, Sync
from dbg_broker.hub.links import NOBODY
from dbg_broker.ranks.rank_record import RankEnd, RankRecord
from dbg_wire import limits
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
        ages=MirroredAges(since=age(rank.since), heard=age(rank.heard), entered=age(rank.entered)),
        waits_in=rank.waits_in,
        end=None if end == RankEnd() else replace(end, at=age(end.at), left=age(end.left)),
        seats=seats,
        where=rank.frames[-1] if rank.state is RankState.EXITED and rank.frames else None,
    )
