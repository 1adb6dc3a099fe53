"""The ranks that the broker lists, kept up to date from its messages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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

    def take(self, message: Message) -> bool:
        """Take a message; return whether it told anything of ranks."""
        if isinstance(message, Snapshot):
            self._pages.update((rank.key, rank) for rank in message.ranks)
            if message.last:
                self._ranks, self._pages, self.complete = self._pages, {}, True
        elif isinstance(message, Change):
            self._ranks[message.rank.key] = message.rank
            if not self.complete:
                self._pages[message.rank.key] = message.rank
        elif isinstance(message, Gone):
            self._ranks.pop(message.key, None)
        else:
            return False
        self._changed()
        return True

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()
