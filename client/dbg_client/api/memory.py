"""What a program has learnt and done: groups that are targets of later calls, and stops that it has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbg_client.core.choose import is_ready
from dbg_wire.records.ranks import RankInfo


class Memory:
    """The groups of the last answer of one broker, by their names, and the stops that were resumed."""

    def __init__(self) -> None:
        self.groups: Mapping[str, frozenset[str]] = {}
        self._resumed: dict[str, float] = {}

    def keep(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Keep the groups of an answer instead of those before."""
        self.groups = {name: frozenset(keys) for name, keys in groups.items()}

    def note_resumed(self, ranks: Sequence[RankInfo]) -> None:
        """Note that these ranks were told to go on: until the broker lists them anew, they seem to be stopped."""
        self._resumed.update((rank.key, rank.occasion) for rank in ranks)

    def without_resumed(self, ranks: Sequence[RankInfo]) -> list[RankInfo]:
        """Return the ranks but for those that are listed at a stop from which they were told to go on."""
        return [rank for rank in ranks if not (is_ready(rank) and self._resumed.get(rank.key) == rank.occasion)]
