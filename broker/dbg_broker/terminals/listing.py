"""The list of ranks and the answers of ranks, sent to each terminal as fast as it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from dbg_broker.feed import Feed, Passes
from dbg_broker.net.outbox import Turns
from dbg_broker.net.websocket import pack_message
from dbg_broker.ranks.table import RankTable, Watcher
from dbg_broker.relay.seats import Seats
from dbg_broker.terminals.link import TerminalLink
from dbg_broker.timers import Timers
from dbg_wire import limits
from dbg_wire.messages import Change, Gone, Snapshot
from dbg_wire.records.ranks import RankInfo

SNAPSHOT_BYTES = limits.MAX_CONTROL_BYTES // 2
"""Estimated size after which a page of a snapshot ends, in bytes. A message may be twice as large, so a large last rank
still fits.
"""

RANK_BYTES = 1024 + 192
"""Estimated bytes of a rank in a snapshot, without its paths."""

ESCAPED_BYTES = 6
"""Maximum number of bytes of one character in JSON."""


SNAPSHOT_RANKS = 50
"""Maximum number of ranks that are checked for one page of a snapshot: checking them takes a millisecond."""

MAX_FRAMES = 4096
"""Maximum number of cached messages about ranks, a KiB each at most. Terminals share them, so each is encoded once."""


GATHER_SECONDS = 0.05
"""How long answers wait for equal answers of other ranks, in seconds, to be sent together. A person can't notice it."""


class Listing(Watcher):
    """Sender of the list of ranks to terminals.

    Changes wait for a terminal as keys of ranks, and become messages when its connection can send them. So a slow
    terminal costs little, and gets the latest state of each rank instead of all states.
    """

    def __init__(
        self, timers: Timers, turns: Turns, table: RankTable, seats: Seats, links: Mapping[int, TerminalLink]
    ) -> None:
        self._timers, self._turns = timers, turns
        self._table, self._seats, self._links = table, seats, links
        self.feed: Feed[str] = Feed()
        self._gone: set[str] = set()
        self._passes = Passes(self._readers, turns.start, timers)
        self._frames: dict[str, bytes] = {}
        """Messages about ranks that were encoded for one terminal and are still valid for the next."""

    def line_changed(self, key: str) -> None:
        """Record that a rank's line in the list changed. Terminals are notified once per round of the event loop."""
        self.feed.changed(key)
        self._frames.pop(key, None)
        if self._table.registry.find(key) is None:
            self._gone.add(key)
        self._passes.changed()

    def supply(self, link: TerminalLink) -> None:
        """Send a terminal the data that waits for it, in slices, while it can receive frames."""
        if not link.is_supplied and link.connection.is_ready:
            link.is_supplied = True
            self._turns.start(self._supplying(link))

    def supply_answers(self, link: TerminalLink) -> None:
        """Send a terminal the answers that wait for it; answers to an open question are sent after GATHER_SECONDS."""
        if link.answers.may_send:
            self.supply(link)
        elif not link.gathers:
            link.gathers = True
            self._timers.schedule(GATHER_SECONDS, partial(self._gathered, link))

    def _gathered(self, link: TerminalLink) -> None:
        link.gathers = False
        link.answers.gathered()
        self.supply(link)

    def _supplying(self, link: TerminalLink) -> Iterator[None]:
        try:
            while link.connection.is_ready and self._send_next(link):
                yield
        finally:
            link.is_supplied = False

    def _send_next(self, link: TerminalLink) -> bool:
        """Send a terminal one of the messages that wait for it. Return False if there was none."""
        connection = link.connection
        if link.changes.has_snapshot:
            connection.send_control(pack_message(self._snapshot_page(link)))
        elif (key := self._change_of(link)) is not None:
            connection.send_control(self._change_frame(key))
        elif link.answers.may_send and (page := link.answers.page()) is not None:
            connection.send_message(page)
        else:
            return False
        return True

    def _readers(self) -> Iterator[Callable[[], None]]:
        """Yield a call for each terminal, which sends the terminal its changes. Also forget removed ranks."""
        self._frames.clear()
        links = tuple(self._links.values())
        # A removed rank is forgotten here when all terminals have been notified of the removal.
        listed = min((link.changes.place for link in links if link.changes.subscribed), default=self.feed.end)
        for key in [key for key in self._gone if not self.feed.has_changed(key, listed)]:
            self._gone.remove(key)
            if self._table.registry.find(key) is None:
                self.feed.forget(key)
        for link in links:
            yield partial(self.supply, link)

    def _change_of(self, link: TerminalLink) -> str | None:
        """Return the next changed rank for a terminal, skipping ranks that its token does not cover."""
        viewer = self._seats.viewer(link.number)
        seat = None if viewer is None else viewer.key
        while (key := link.changes.change(self.feed, seat)) is not None:
            if self._is_news(link, key):
                return key
        return None

    def _is_news(self, link: TerminalLink, key: str) -> bool:
        if link.listed is None:
            return True
        if self._may_see(link, key):
            link.listed.add(key)
            return True
        # The terminal knows this rank, so it must be notified that the rank is gone.
        was_listed = key in link.listed
        link.listed.discard(key)
        return was_listed

    def _may_see(self, link: TerminalLink, key: str) -> bool:
        rank = self._table.registry.find(key)
        return rank is not None and link.bearer.may_see(rank.identity.job)

    def _change_frame(self, key: str) -> bytes:
        frame = self._frames.get(key)
        if frame is None:
            rank = self._table.registry.find(key)
            frame = pack_message(Gone(key=key) if rank is None else Change(rank=self._table.info(rank)))
            if len(frame) <= limits.KIB and len(self._frames) < MAX_FRAMES:
                self._frames[key] = frame
        return frame

    def _snapshot_page(self, link: TerminalLink) -> Snapshot:
        ranks: list[RankInfo] = []
        size = 0
        for _ in range(SNAPSHOT_RANKS):
            if size >= SNAPSHOT_BYTES or (key := link.changes.next_listed()) is None:
                break
            rank = self._table.registry.find(key) if self._may_see(link, key) else None
            if rank is not None:
                ranks.append(self._table.info(rank))
                if link.listed is not None:
                    link.listed.add(key)
                size += _size_at_most(ranks[-1])
        return Snapshot(ranks=tuple(ranks), last=link.changes.end_page())


def _size_at_most(info: RankInfo) -> int:
    place = info.where
    texts = len(info.script) + len(info.directory) + (len(place.file) + len(place.function) if place else 0)
    return RANK_BYTES + len(info.key) + ESCAPED_BYTES * texts
