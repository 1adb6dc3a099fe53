"""The ranks of several brokers as one list: which broker has which rank, and whose word counts. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from dbg_wire.messages import Change, Gone, Snapshot
from dbg_wire.records.ranks import RankInfo, RankState

B = TypeVar("B")


class MergedList(Generic[B]):
    """Follow the lists of all brokers, and tell one list.

    A broker lists its own ranks alone. A rank that goes to another broker is listed by both for a while: the newer
    record counts. Those of a broker that is away stay as they were until another one has them, or :meth:`drop`.
    """

    def __init__(self) -> None:
        self._ranks: dict[str, tuple[B, RankInfo]] = {}
        self._pages: dict[B, dict[str, RankInfo]] = {}
        """What has come so far of each snapshot that is awaited."""

    @property
    def is_awaited(self) -> bool:
        """Tell whether the snapshot of any broker is awaited."""
        return bool(self._pages)

    def awaits(self, broker: B) -> bool:
        """Tell whether the snapshot of this broker is awaited."""
        return broker in self._pages

    def begin(self, broker: B) -> None:
        """Await a snapshot, which replaces what the broker has listed before."""
        self._pages[broker] = {}

    def cut_off(self, broker: B) -> None:
        """Await nothing of a broker that is away."""
        self._pages.pop(broker, None)

    def owner(self, key: str) -> B | None:
        """Return the broker that has a rank, or had it last; None for an unknown rank."""
        found = self._ranks.get(key)
        return None if found is None else found[0]

    def whole(self) -> Snapshot:
        """Return the list of all ranks."""
        return Snapshot(ranks=tuple(rank for _, rank in self._ranks.values()), last=True)

    def take(self, broker: B, message: Snapshot | Change | Gone) -> bool:
        """Take what a broker says; return whether the list of all may have changed by it."""
        pages = self._pages.get(broker, {})
        if isinstance(message, Snapshot):
            pages.update((rank.key, rank) for rank in message.each())
            if message.last:
                self.cut_off(broker)
                self.drop(lambda key, owner: owner is broker and key not in pages)
                for rank in pages.values():
                    self._put(broker, rank)
            return message.last
        if isinstance(message, Change):
            pages[message.rank.key] = message.rank
            return self._put(broker, message.rank)
        if self.owner(message.key) is not broker:
            return False
        del self._ranks[message.key]
        return True

    def drop(self, is_gone: Callable[[str, B], bool]) -> bool:
        """Forget ranks by key and broker; return whether there were any."""
        gone = [key for key, (owner, _) in self._ranks.items() if is_gone(key, owner)]
        for key in gone:
            del self._ranks[key]
        return bool(gone)

    def _put(self, broker: B, rank: RankInfo) -> bool:
        found = self._ranks.get(rank.key)
        if found is not None and found[0] is not broker and _weight(rank) < _weight(found[1]):
            return False
        self._ranks[rank.key] = broker, rank
        return True


def _weight(rank: RankInfo) -> tuple[bool, int, bool]:
    """Return what is larger for the newer one of two records of a rank.

    A process that has ended does not come back. Of one registration, who has lost the rank knows less.
    """
    return rank.state is RankState.EXITED, rank.epoch, rank.state is not RankState.LOST
