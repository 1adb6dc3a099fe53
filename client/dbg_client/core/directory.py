"""The ranks that the broker lists, kept up to date from its messages, and what has changed about each. Pure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dbg_wire.messages import Change, Gone, Message, Snapshot
from dbg_wire.records.ranks import RankInfo

LISTS = (Snapshot, Change, Gone)
"""Messages that tell of ranks in general."""

MAX_WAITING = 4096
"""Changes that wait for a program that listens; beyond it the oldest are left out and counted."""


class Directory:
    """What is known of all ranks.

    ``complete`` tells that the snapshot of the present connection is whole, ``away`` why there is no connection, or
    None. ``on_change`` is called after any change.
    """

    def __init__(self) -> None:
        self.complete = False
        self.away: str | None = None
        self.on_change: Callable[[], None] | None = None
        self._ranks: dict[str, RankInfo] = {}
        self._pages: dict[str, RankInfo] = {}

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """Return all ranks, in the order in which the broker told them."""
        return tuple(self._ranks.values())

    @property
    def by_key(self) -> Mapping[str, RankInfo]:
        """Return the ranks by their key."""
        return self._ranks

    def begin(self) -> None:
        """Begin a connection: what was known stays until its snapshot is whole, so that a list doesn't flicker."""
        self.complete, self.away = False, None
        self._pages = {}
        self._changed()

    def cut_off(self, reason: str) -> None:
        """Take note that the broker is gone; what was known stays."""
        self.away = reason
        self._changed()

    def receive(self, message: Message) -> list[RankChange]:
        """Take a message, and return what it changes of ranks."""
        if not isinstance(message, LISTS):
            return []
        before, changes = self._ranks, list[RankChange]()
        if isinstance(message, Snapshot):
            self._pages.update((rank.key, rank) for rank in message.ranks)
            if message.last:
                self._ranks, self._pages, self.complete = self._pages, {}, True
                changes = [
                    RankChange(before=before.get(key), now=self._ranks.get(key))
                    for key in {**before, **self._ranks}
                    if before.get(key) != self._ranks.get(key)
                ]
        elif isinstance(message, Change):
            key, now = message.rank.key, message.rank
            if before.get(key) != now:
                changes = [RankChange(before=before.get(key), now=now)]
            self._ranks[key] = now
            if not self.complete:
                self._pages[key] = now
        elif gone := self._ranks.pop(message.key, None):
            changes = [RankChange(before=gone, now=None)]
        self._changed()
        return changes

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankChange:
    """A rank before and after a change: ``before`` is None for a rank that has come, ``now`` for one that is forgotten.

    ``left_out`` counts the changes that were lost before this one, as the program was too slow.
    """

    before: RankInfo | None
    now: RankInfo | None
    left_out: int = 0

    @property
    def rank(self) -> RankInfo:
        """Return the rank as it is, or was at last."""
        found = self.now or self.before
        if found is None:
            raise ValueError("a change is of a rank")
        return found


class News:
    """The changes that one listener has still to take; belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[RankChange | BaseException] = asyncio.Queue(MAX_WAITING + 1)
        self._left_out = 0

    async def next(self) -> RankChange:
        """Return the next change. Raises BrokerUnreachable when the connection is closed."""
        change = await self._waiting.get()
        if isinstance(change, BaseException):
            raise change
        left_out, self._left_out = self._left_out, 0
        return RankChange(before=change.before, now=change.now, left_out=left_out) if left_out else change

    def put(self, change: RankChange) -> None:
        """Take a change; the oldest one makes room."""
        if self._waiting.qsize() >= MAX_WAITING:
            self._waiting.get_nowait()
            self._left_out += 1
        self._waiting.put_nowait(change)

    def end(self, error: BaseException) -> None:
        """Have the listener told that no more comes."""
        self._waiting.put_nowait(error)
