"""The ranks as rows of a page: each is made once, when it has changed, for all pages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dbg_client.core.choose import call_roll
from dbg_client.verbs.list import list_ranks
from dbg_client.views.naming import absent_only, absent_rows
from dbg_client.web.messages import Axis
from dbg_client.web.shown import row_of
from dbg_command.targets import Target, select
from dbg_wire.errors import AmbiguousTarget, NoSuchRank
from dbg_wire.records.ranks import RankInfo, RankState

MAX_LEFT = 10_000
"""Ranks that are known after they have left, for a broker that comes back without them at first."""


class RowChanges(NamedTuple):
    """What has changed of the rows. ``pairs`` are the ranks behind them, before and now, for those who tell of it."""

    rows: tuple[msgspec.Raw, ...]
    gone: tuple[str, ...]
    pairs: tuple[tuple[RankInfo | None, RankInfo | None], ...]


class Rows:
    """The rows of the ranks that ``list`` shows of a target, None for all; made anew for what has changed alone."""

    def __init__(self, target: Target | None) -> None:
        self.missing: tuple[str, ...] = ()
        """Which ranks never came, a line for each run."""
        self.target = target
        self._ranks: dict[str, RankInfo] = {}
        self._rows: dict[str, msgspec.Raw] = {}
        self._sizes: dict[str, int] = {}
        self._left: dict[str, RankInfo] = {}

    @property
    def all(self) -> tuple[msgspec.Raw, ...]:
        """Return all rows."""
        return tuple(self._rows.values())

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """Return the ranks behind the rows."""
        return tuple(self._ranks.values())

    def rank(self, key: str) -> RankInfo | None:
        """Return the rank of a row; None if there is no such row."""
        return self._ranks.get(key)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Return the axes of the mesh, as far as ranks tell them."""
        return tuple(Axis(name=name, size=size) for name, size in self._sizes.items())

    def chooses_anew(self, keys: Iterable[str], known: Mapping[str, RankInfo]) -> bool:
        """Tell whether other ranks may be listed now that these have changed, so that :meth:`choose` is due."""
        if self.target is not None:
            return True
        pairs = ((self._ranks.get(key), known.get(key)) for key in keys)
        return any(before is None or now is None or _has_ended(before) != _has_ended(now) for before, now in pairs)

    def choose(self, known: Sequence[RankInfo]) -> RowChanges:
        """Take the ranks that are listed now, and return what has changed."""
        shown = {rank.key: rank for rank in list_ranks(known, self.target, self._fitting(known))}
        gone = [key for key in self._ranks if key not in shown]
        changes = self._take([*((key, None) for key in gone), *shown.items()])
        # After a restart of the broker its ranks are not back at once, and have been here all the same.
        runs = {rank.run for rank in known}
        away = [rank for rank in self._left.values() if rank.run in runs and not _has_ended(rank)]
        absent = absent_only(call_roll([*known, *away], self.target))
        several_jobs = len({rank.job for rank in shown.values()}) > 1
        self.missing = tuple(absent_rows(absent, several_jobs=several_jobs).splitlines())
        return changes

    def update(self, keys: Iterable[str], known: Mapping[str, RankInfo]) -> RowChanges:
        """Take what is known now of those of these ranks that are listed, and return what has changed."""
        return self._take([(key, known[key]) for key in keys if key in self._ranks and key in known])

    def _fitting(self, known: Sequence[RankInfo]) -> Sequence[RankInfo]:
        if self.target is None:
            return ()
        try:
            return select(self.target, known, any_job=True).ranks
        except (NoSuchRank, AmbiguousTarget):
            return ()

    def _take(self, news: Iterable[tuple[str, RankInfo | None]]) -> RowChanges:
        rows: list[msgspec.Raw] = []
        gone: list[str] = []
        pairs = []
        for key, now in news:
            before = self._ranks.get(key)
            if now is before:
                continue
            if now is None:
                self._left[key] = self._ranks.pop(key)
                if len(self._left) > MAX_LEFT:
                    del self._left[next(iter(self._left))]
                del self._rows[key]
                gone.append(key)
                continue
            # After a restart of the broker its ranks come back, and their old stops are no news.
            pairs.append((before or self._left.pop(key, None), now))
            self._ranks[key] = now
            row = row_of(now)
            if row != self._rows.get(key):
                self._rows[key] = row
                rows.append(row)
                self._measure(now)
        return RowChanges(tuple(rows), tuple(gone), tuple(pairs))

    def _measure(self, rank: RankInfo) -> None:
        for one in rank.coordinates:
            self._sizes[one.axis] = max(self._sizes.get(one.axis, 0), one.index + 1)


def _has_ended(rank: RankInfo) -> bool:
    return rank.state is RankState.EXITED
