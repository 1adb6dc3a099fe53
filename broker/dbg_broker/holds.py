"""Who is to hear how far the ranks are that it waits for. Pure.

Nothing of a hold is kept here that the ranks don't restate when they register: a new broker knows it all again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from dbg_broker.registry import Rank, Registry
from dbg_wire.messages import Chosen, ChosenRank, Waiting
from dbg_wire.ranks import RankState

_Run = tuple[str, str]


class Holds:
    """Know, by run, which rank has which key, who waits, and what those were last told."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._ranks: defaultdict[_Run, dict[int, str]] = defaultdict(dict)
        self._waiting: defaultdict[_Run, dict[str, Waiting]] = defaultdict(dict)
        self._told: dict[str, Chosen] = {}

    def changed(self, rank: Rank) -> Iterator[tuple[str, Chosen]]:
        """Take in a change of a rank; return whom to tell what."""
        run = (rank.said.job, rank.said.run)
        if rank.child is None and (rank.is_live or rank.said.rank not in self._ranks[run]):
            # A rank that ended may still change, and a relaunched one has its number by then.
            self._ranks[run][rank.said.rank] = rank.key
        waits = rank.report.waits if rank.state is RankState.HELD else None
        waiting = self._waiting[run]
        if waits is None:
            waiting.pop(rank.key, None)
            self._told.pop(rank.key, None)
        elif waiting.get(rank.key) != waits:
            waiting[rank.key] = waits
            self._told.pop(rank.key, None)
            yield from self._tell(run, rank.key, waits)
        if rank.child is None:
            for key, waits in tuple(waiting.items()):
                if rank.said.rank in waits.ranks:
                    yield from self._tell(run, key, waits)
        if not waiting:
            del self._waiting[run]

    def came_back(self, key: str) -> None:
        """Forget what a rank was told: it has a new connection."""
        self._told.pop(key, None)
        for waiting in self._waiting.values():
            waiting.pop(key, None)

    def forget(self, key: str) -> None:
        """Forget a rank that is no longer listed."""
        self.came_back(key)
        for run, ranks in tuple(self._ranks.items()):
            for number in [number for number, owner in ranks.items() if owner == key]:
                del ranks[number]
            if not ranks:
                del self._ranks[run]

    def _tell(self, run: _Run, key: str, waits: Waiting) -> Iterator[tuple[str, Chosen]]:
        ranks = tuple(self._status(run, number, waits.site, key) for number in waits.ranks)
        chosen = Chosen(site=waits.site, ranks=ranks)
        if self._told.get(key) != chosen:
            self._told[key] = chosen
            yield key, chosen

    def _status(self, run: _Run, number: int, site: str, waiter: str) -> ChosenRank:
        rank = self._registry.find(self._ranks[run].get(number, ""))
        waiting = self._registry.find(waiter)
        if rank is None or (waiting is not None and not rank.is_live and rank.ended < waiting.entered):
            # None, or one of an earlier launch that bears the same names.
            return ChosenRank(rank=number, arrived=0, completed=0, state=None)
        arrivals = {arrival.site: arrival for arrival in rank.report.arrivals}
        at = arrivals.get(site)
        return ChosenRank(
            rank=number, arrived=at.arrived if at else 0, completed=at.completed if at else 0, state=rank.state
        )
