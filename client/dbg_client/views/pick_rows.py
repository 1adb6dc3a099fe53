"""The rows of the list that the user picks from: ranks, or a line for a host's ranks in one state. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from dbg_wire.records.ranks import RankInfo

FOLDED, UNFOLDED = "+", "-"
"""What stands before a group of which the ranks are not listed, and of which they are."""

MAX_ADDRESS = 1000
"""Characters of a host or an address in a row that has more than that: the record has a bound, and the screen too."""


@dataclass(frozen=True, slots=True)
class PickRow:
    """One row: a rank, or a group of a host's ranks in one state. ``key`` stays the same while the ranks change."""

    key: str
    ranks: tuple[RankInfo, ...]
    shown: RankInfo
    """What the row's columns say."""
    group: str | None = None
    """The key of the group that this row is or belongs to."""

    @property
    def rank(self) -> RankInfo | None:
        """Return the rank, None for a group."""
        return None if self.key == self.group else self.ranks[0]


def make_rows(ranks: Sequence[RankInfo], height: int, unfolded: AbstractSet[str]) -> tuple[PickRow, ...]:
    """Return a row for each rank, in this order; beyond ``height`` rows, ranks of one host and state are one group.

    The ranks of groups in ``unfolded`` follow their group's row.
    """
    if len(ranks) <= height:
        return tuple(PickRow(rank.key, (rank,), rank) for rank in ranks)
    groups: dict[str, list[RankInfo]] = {}
    for rank in ranks:
        groups.setdefault(_group(rank), []).append(rank)
    rows: list[PickRow] = []
    for key, members in groups.items():
        if len(members) == 1:
            rows.append(PickRow(members[0].key, (members[0],), _indented(members[0])))
            continue
        sign = UNFOLDED if key in unfolded else FOLDED
        rows.append(PickRow(key, tuple(members), _summary(members, sign), key))
        if key in unfolded:
            rows += [PickRow(rank.key, (rank,), _indented(rank), key) for rank in members]
    return tuple(rows)


def index_of(rows: Sequence[PickRow], key: str | None) -> int:
    """Return where the row with this key is: the group's, if it is the key of a rank that is folded away; else 0."""
    for index, row in enumerate(rows):
        if row.key == key:
            return index
    holding = (index for index, row in enumerate(rows) if any(rank.key == key for rank in row.ranks))
    return next(holding, 0)


def _group(rank: RankInfo) -> str:
    return f"\0{rank.job}\0{rank.run}\0{rank.host}\0{rank.state.value}"  # no rank's key begins so


def _summary(members: Sequence[RankInfo], sign: str) -> RankInfo:
    first = members[0]
    places = {(rank.where, rank.reason) for rank in members}
    same = len(places) == 1
    return first.replace(
        address=f"{sign} {first.host[:MAX_ADDRESS]}:*  {len(members)} ranks",
        where=first.where if same else None,
        reason=first.reason if same else None,
        since=min(rank.since for rank in members),
        queued=0,
        driver=None,
        watchers=sum(rank.watchers for rank in members),
        detail="",
    )


def _indented(rank: RankInfo) -> RankInfo:
    return rank.replace(address=f"  {rank.address[:MAX_ADDRESS]}")
