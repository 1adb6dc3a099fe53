"""The ranks as rows of a page: each is made once, when it has changed, for all pages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
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
    pairs: tuple[tuple[RankInfo | None, RankInfo], ...]


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

    def choose(self, known: Sequence[RankInfo]) -> RowChanges:
        """Take the ranks that are listed now, and return what has changed."""
        shown = {rank.key: rank for rank in list_ranks(known, self.target, self._fitting(known))}
        gone = tuple(key for key in self._ranks if key not in shown)
        for key in gone:
            self._left[key] = self._ranks.pop(key)
            del self._rows[key]
            if len(self._left) > MAX_LEFT:
                del self._left[next(iter(self._left))]
        rows: list[msgspec.Raw] = []
        # After a restart of the broker its ranks come back, and their old stops are no news.
        pairs = [
            (self._ranks.get(key) or self._left.pop(key, None), now)
            for key, now in shown.items()
            if now is not self._ranks.get(key)
        ]
        for _, now in pairs:
            self._ranks[now.key] = now
            row = row_of(now)
            if row != self._rows.get(now.key):
                self._rows[now.key] = row
                rows.append(row)
                for one in now.coordinates:
                    self._sizes[one.axis] = max(self._sizes.get(one.axis, 0), one.index + 1)
        self._call_roll(known)
        return RowChanges(tuple(rows), gone, tuple(pairs))

    def _call_roll(self, known: Sequence[RankInfo]) -> None:
        # After a restart of the broker its ranks are not back at once, and have been here all the same.
        runs = {rank.run for rank in known}
        away = [one for one in self._left.values() if one.run in runs and one.state is not RankState.EXITED]
        absent = absent_only(call_roll([*known, *away], self.target))
        several_jobs = len({rank.job for rank in self._ranks.values()}) > 1
        self.missing = tuple(absent_rows(absent, several_jobs=several_jobs).splitlines())

    def _fitting(self, known: Sequence[RankInfo]) -> Sequence[RankInfo]:
        if self.target is None:
            return ()
        try:
            return select(self.target, known, any_job=True).ranks
        except (NoSuchRank, AmbiguousTarget):
            return ()
