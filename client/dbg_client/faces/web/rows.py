"""The ranks as rows of a page: each is made once, when it has changed, for all pages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dbg_client.faces.web.messages import Axis
from dbg_client.questions.verbs import list_ranks
from dbg_client.views.list import LIST_FIELDS
from dbg_client.views.missing import missing_documents
from dbg_wire.errors import AmbiguousTarget, NoSuchRank
from dbg_wire.records.ranks import RankInfo, RankState
from dbg_wire.targets.selection import Target, select

MORE_FIELDS = ("key", "waits_in")
"""What a page needs of a rank beside what ``list --json`` has, and beside its coordinates."""

_encoder = msgspec.json.Encoder()


class RowChanges(NamedTuple):
    """What has changed of the rows. ``pairs`` are the ranks behind them, before and now, for those who tell of it."""

    rows: tuple[msgspec.Raw, ...]
    gone: tuple[str, ...]
    pairs: tuple[tuple[RankInfo | None, RankInfo | None], ...]


def row_of(rank: RankInfo) -> msgspec.Raw:
    """Return the row of a rank."""
    document = {name: getattr(rank, name) for name in (*LIST_FIELDS, *MORE_FIELDS)}
    document["coordinates"] = {one.axis: one.index for one in rank.coordinates}
    return msgspec.Raw(_encoder.encode(document))


class Rows:
    """The rows of the ranks that ``list`` shows of a target, None for all; made anew for what has changed alone."""

    def __init__(self, target: Target | None) -> None:
        self.missing: tuple[msgspec.Raw, ...] = ()
        """Which ranks never came, as ``list --json`` has them."""
        self.target = target
        self._ranks: dict[str, RankInfo] = {}
        self._rows: dict[str, msgspec.Raw] = {}
        self._sizes: dict[str, int] = {}

    @property
    def all(self) -> tuple[msgspec.Raw, ...]:
        """Return all rows."""
        return tuple(self._rows.values())

    @property
    def ranks(self) -> tuple[RankInfo, ...]:
        """Return the ranks behind the rows."""
        return tuple(self._ranks.values())

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
        listed = list_ranks(known, self.target, self._fitting(known))
        self.missing = tuple(msgspec.Raw(_encoder.encode(one)) for one in missing_documents(listed.absent))
        shown = {rank.key: rank for rank in listed.shown}
        gone = [key for key in self._ranks if key not in shown]
        return self._take([*((key, None) for key in gone), *shown.items()])

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
            pairs.append((before, now))
            if now is None:
                del self._ranks[key], self._rows[key]
                gone.append(key)
                continue
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
