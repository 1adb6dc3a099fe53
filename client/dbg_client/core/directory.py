"""Ranks that the broker lists, kept up to date from its messages, and changes between two states. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dbg_wire.messages import Change, Gone, Message, Snapshot
from dbg_wire.records.ranks import RankInfo

LISTS = (Snapshot, Change, Gone)
"""Messages about the list of ranks."""


class Directory:
    """Last known state of all ranks.

    ``complete`` means that the snapshot of the current connection is whole. ``away`` is the reason of a missing
    connection; None while connected. ``on_change`` is called after any change.
    """

    def __init__(self) -> None:
        self.complete = False
        self.away: str | None = None
        self.on_change: Callable[[], None] | None = None
        self._ranks: dict[str, RankInfo] = {}

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """All ranks, in the order of the broker's list."""
        return tuple(self._ranks.values())

    @property
    def by_key(self) -> Mapping[str, RankInfo]:
        """Ranks by key."""
        return self._ranks

    def start(self) -> None:
        """Begin a connection. Known ranks stay until its snapshot is whole, so that a list doesn't flicker."""
        self.complete, self.away = False, None
        self._changed()

    def cut_off(self, reason: str) -> None:
        """Record that the broker is disconnected. Known ranks stay."""
        self.away = reason
        self._changed()

    def receive(self, message: Message) -> None:
        """Process a message. A snapshot contains all ranks of all brokers."""
        if not isinstance(message, LISTS):
            return
        if isinstance(message, Snapshot):
            self._ranks, self.complete = {rank.key: rank for rank in message.ranks}, True
        elif isinstance(message, Change):
            self._ranks[message.rank.key] = message.rank
        else:
            self._ranks.pop(message.key, None)
        self._changed()

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankChange:
    """Rank before and after a change. A new rank has no ``before``, and a removed rank has no ``now``."""

    before: RankInfo | None
    now: RankInfo | None

    @property
    def rank(self) -> RankInfo:
        """Current or last known state of the rank."""
        found = self.now or self.before
        if found is None:
            raise ValueError("a change needs a rank")
        return found


def changes_between(before: Mapping[str, RankInfo], now: Mapping[str, RankInfo]) -> list[RankChange]:
    """Return the changes of ranks between two values of a directory's ``by_key``."""
    keys = {**before, **now}
    return [RankChange(before=before.get(key), now=now.get(key)) for key in keys if before.get(key) != now.get(key)]
