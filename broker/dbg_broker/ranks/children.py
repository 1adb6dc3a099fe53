"""Which ranks of one address are children of other ranks of it, and their numbers. Pure.

A process that a rank starts registers under the same job, run, host and rank number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dbg_broker.ranks.rank_record import FamilyName, RankRecord
from dbg_wire.records.ranks import RankState


@dataclass(slots=True)
class _Family:
    """Index of the ranks of one (job, run, host, rank), by what tells a parent from a child."""

    by_pid: dict[int, str] = field(default_factory=dict)
    below: dict[int, set[str]] = field(default_factory=dict)
    children: dict[int, str] = field(default_factory=dict)
    size: int = 0
    last_child: int = 0


class Children:
    """The places of the ranks of each address; ``ranks`` are all by key. The length is the number of addresses."""

    def __init__(self, ranks: Mapping[str, RankRecord]) -> None:
        self._ranks = ranks
        self._families: dict[FamilyName, _Family] = {}

    def __len__(self) -> int:
        return len(self._families)

    def join(self, rank: RankRecord, wanted: int | None) -> tuple[RankRecord, ...]:
        """Give a rank its place among those of its address, and return the ranks that became children by it.

        A rank is a child if one of its ancestors is in the family as well, or if it was a child before.
        """
        family = self._families.setdefault(rank.family, _Family())
        has_parent = any(pid in family.by_pid for pid in rank.said.ancestors)
        rank.child = None
        if has_parent or wanted is not None:
            self._number(family, rank, wanted)
        renamed = [self._ranks[key] for key in sorted(family.below.get(rank.said.pid, ()))]
        renamed = [child for child in renamed if child.child is None and child.state is not RankState.EXITED]
        for child in renamed:
            self._number(family, child, None)
        family.size += 1
        if rank.state is not RankState.EXITED:
            family.by_pid[rank.said.pid] = rank.key
        for pid in rank.said.ancestors:
            family.below.setdefault(pid, set()).add(rank.key)
        return tuple(renamed)

    def leave(self, rank: RankRecord) -> None:
        """Take a rank out."""
        family = self._families[rank.family]
        family.size -= 1
        if family.size == 0:
            del self._families[rank.family]
            return
        if family.by_pid.get(rank.said.pid) == rank.key:
            del family.by_pid[rank.said.pid]
        for pid in rank.said.ancestors:
            keys = family.below[pid]
            keys.discard(rank.key)
            if not keys:
                del family.below[pid]
        if rank.child is not None and family.children.get(rank.child) == rank.key:
            del family.children[rank.child]

    def ended(self, rank: RankRecord) -> None:
        """Note that a rank has exited: a later process may have its pid, and the children of that are not its own."""
        family = self._families[rank.family]
        if family.by_pid.get(rank.said.pid) == rank.key:
            del family.by_pid[rank.said.pid]

    def _number(self, family: _Family, rank: RankRecord, wanted: int | None) -> None:
        holder = self._ranks.get(family.children.get(wanted, "")) if wanted is not None else None
        taken = holder is not None and holder is not rank and holder.state is not RankState.EXITED
        # A number is given again only to its owner: a listed `.1` must not be two processes one after another.
        rank.child = family.last_child + 1 if wanted is None or taken else wanted
        family.last_child = max(family.last_child, rank.child)
        family.children[rank.child] = rank.key
