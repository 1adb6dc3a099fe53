"""The ranks that the broker lists, kept up to date from its messages, and what has changed about each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dbg_wire.messages import Change, Gone, Message, Snapshot
from dbg_wire.records.ranks import RankInfo

LISTS = (Snapshot, Change, Gone)
"""Messages that tell of ranks in general."""


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
        self._changed()

    def cut_off(self, reason: str) -> None:
        """Take note that the broker is gone; what was known stays."""
        self.away = reason
        self._changed()

    def receive(self, message: Message) -> None:
        """Take a message; a snapshot has all ranks of all brokers."""
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
    """A rank before and after a change: ``before`` is None for one that has come, ``now`` for one that is forgotten."""

    before: RankInfo | None
    now: RankInfo | None

    @property
    def rank(self) -> RankInfo:
        """Return the rank as it is, or was at last."""
        found = self.now or self.before
        if found is None:
            raise ValueError("a change is of a rank")
        return found


def changes_between(before: Mapping[str, RankInfo], now: Mapping[str, RankInfo]) -> list[RankChange]:
    """Return the changes of ranks between two looks at a directory's ``by_key``."""
    keys = {**before, **now}
    return [RankChange(before=before.get(key), now=now.get(key)) for key in keys if before.get(key) != now.get(key)]
