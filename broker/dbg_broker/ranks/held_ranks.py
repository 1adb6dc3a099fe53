"""What held ranks are told about the ranks that they wait for. Pure.

Ranks restate all facts of a hold when they register, so a new broker knows them again. A held rank is told once of all
ranks that it waits for, and after that of those that changed. Ranks that wait for the same ranks at the same place are
told the same, so that the message of a change is made once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from dbg_broker.ranks.broadcast import Broadcast
from dbg_broker.ranks.rank_record import RankRecord, RunName
from dbg_broker.ranks.registry import Registry
from dbg_wire.messages import Chosen, ChosenRank, Waiting
from dbg_wire.records.ranks import RankState

RANKS_AT_ONCE = 256
"""Ranks in one message about those that others wait for: it is made in two milliseconds."""

_HoldStatus = tuple[ChosenRank, float]
"""How far a rank is, and when it ended if it did."""


@dataclass(slots=True, eq=False)
class _WaitingGroup:
    """Held ranks that wait for the same ranks at the same place.

    ``informed`` are the keys of held ranks that have been told everything, ``newcomers`` those of the others.
    ``changed`` are numbers of ranks that all have to be told of, and ``sent`` is what was told last of each.
    """

    run: RunName
    site: str
    ranks: tuple[int, ...]
    informed: dict[str, None] = field(default_factory=dict)
    newcomers: dict[str, None] = field(default_factory=dict)
    changed: dict[int, None] = field(default_factory=dict)
    sent: dict[int, _HoldStatus] = field(default_factory=dict)

    @property
    def name(self) -> tuple[RunName, str, tuple[int, ...]]:
        return self.run, self.site, self.ranks


class HeldRanks:
    """By run, which rank has which key, which ranks wait, and what is still to be told to these."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._keys: dict[tuple[RunName, int], str] = {}
        self._places: dict[str, tuple[RunName, int]] = {}
        self._groups: dict[tuple[RunName, str, tuple[int, ...]], _WaitingGroup] = {}
        self._concerned: defaultdict[tuple[RunName, int], dict[_WaitingGroup, None]] = defaultdict(dict)
        self._waiting: dict[str, tuple[_WaitingGroup, Waiting]] = {}
        self._due: dict[_WaitingGroup, None] = {}

    def changed(self, rank: RankRecord) -> bool:
        """Take in a change of a rank; tell whether :meth:`news` has something for a rank."""
        run = rank.run
        if rank.child is None and (rank.is_live or (run, rank.identity.rank) not in self._keys):
            # A rank that ended may still change when a relaunched rank has its number already.
            self._settle(rank.key, (run, rank.identity.rank))
        is_held = rank.is_live and rank.report.state is RankState.HELD
        self._wait(rank, run, rank.report.waits if is_held else None)
        if rank.child is None:
            for group in self._concerned.get((run, rank.identity.rank), ()):
                group.changed[rank.identity.rank] = None
                self._due[group] = None
        return bool(self._due)

    def news(self) -> Iterator[Broadcast]:
        """Return what is to be told to which ranks now, in order for each rank; it counts as told then."""
        due, self._due = self._due, {}
        for group in due:
            changed, group.changed = tuple(group.changed), {}
            informed, newcomers = tuple(group.informed), tuple(group.newcomers)
            # More ranks may come before the next telling is asked for.
            group.informed.update(group.newcomers)
            group.newcomers = {}
            for begin in range(0, len(changed), RANKS_AT_ONCE):
                some = changed[begin : begin + RANKS_AT_ONCE]
                news = [number for number in some if self._is_news(group, number)]
                if news and informed:
                    yield from self._broadcasts(group, news, informed, None)
            for begin in range(0, len(group.ranks) if newcomers else 0, RANKS_AT_ONCE):
                some = group.ranks[begin : begin + RANKS_AT_ONCE]
                for number in some:
                    self._is_news(group, number)
                yield from self._broadcasts(group, some, newcomers, ("chosen", group.site, begin))

    def missed(self, key: str) -> None:
        """Note that a rank was behind and has not been sent what changed: it is told all at the next occasion."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            group, _ = waiting
            group.informed.pop(key, None)
            group.newcomers[key] = None
            self._due[group] = None

    def came_back(self, key: str) -> None:
        """Forget what a rank was told: it has a new connection."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            self._leave(key, waiting[0])

    def forget(self, key: str) -> None:
        """Forget a rank that is no longer listed."""
        self.came_back(key)
        place = self._places.pop(key, None)
        if place is not None and self._keys.get(place) == key:
            del self._keys[place]

    # ----------------------------------------------------------------------------------------------------------- inner

    def _settle(self, key: str, place: tuple[RunName, int]) -> None:
        """Note that the rank of this number is this one."""
        before = self._places.get(key)
        if before is not None and before != place and self._keys.get(before) == key:
            del self._keys[before]
        self._places[key] = place
        self._keys[place] = key

    def _wait(self, rank: RankRecord, run: RunName, waits: Waiting | None) -> None:
        before = self._waiting.get(rank.key)
        if before is not None and before[1] == waits and before[0].run == run:
            return
        self.came_back(rank.key)
        if waits is None:
            return
        name = (run, waits.site, waits.ranks)
        group = self._groups.get(name)
        if group is None:
            self._groups[name] = group = _WaitingGroup(*name)
            for number in waits.ranks:
                self._concerned[run, number][group] = None
        self._waiting[rank.key] = group, waits
        group.newcomers[rank.key] = None
        self._due[group] = None

    def _leave(self, key: str, group: _WaitingGroup) -> None:
        group.informed.pop(key, None)
        group.newcomers.pop(key, None)
        if group.informed or group.newcomers or self._groups.get(group.name) is not group:
            return
        del self._groups[group.name]
        self._due.pop(group, None)
        for number in dict.fromkeys(group.ranks):
            concerned = self._concerned[group.run, number]
            concerned.pop(group, None)
            if not concerned:
                del self._concerned[group.run, number]

    def _is_news(self, group: _WaitingGroup, number: int) -> bool:
        """Tell whether a rank differs from what was told of it last, and note its state as told."""
        said = self._status(group, number)
        if group.sent.get(number) == said:
            return False
        group.sent[number] = said
        return True

    def _status(self, group: _WaitingGroup, number: int) -> _HoldStatus:
        rank = self._registry.find(self._keys.get((group.run, number), ""))
        if rank is None:
            return ChosenRank(rank=number, arrived=0, completed=0, state=None), 0.0
        at = next((arrival for arrival in rank.report.arrivals if arrival.site == group.site), None)
        arrived, completed = (at.arrived, at.completed) if at is not None else (0, 0)
        status = ChosenRank(rank=number, arrived=arrived, completed=completed, state=rank.state)
        return status, 0.0 if rank.is_live else rank.end.at

    def _broadcasts(
        self, group: _WaitingGroup, numbers: Iterable[int], keys: tuple[str, ...], name: Hashable
    ) -> Iterator[Broadcast]:
        """Return how far these ranks are, for each of these keys; ranks that are told the same share a telling."""
        said = [self._status(group, number) for number in numbers]
        ends = sorted({ended for status, ended in said if status.state in (RankState.LOST, RankState.EXITED)})
        together: defaultdict[int, list[str]] = defaultdict(list)
        for key in keys:
            waiter = self._registry.find(key)
            # A rank that ended before the waiting rank came was of an earlier launch with the same names.
            together[bisect_left(ends, waiter.entered) if waiter is not None else 0].append(key)
        for earlier, listeners in together.items():
            former = ends[earlier - 1] if earlier else None
            ranks = tuple(_as_of_now(status, ended, former) for status, ended in said)
            yield Broadcast(Chosen(site=group.site, ranks=ranks), tuple(listeners), name)


def _as_of_now(status: ChosenRank, ended: float, former: float | None) -> ChosenRank:
    """Return how far a rank is, or that there is none yet if it ended with a former launch."""
    if former is not None and status.state in (RankState.LOST, RankState.EXITED) and ended <= former:
        return ChosenRank(rank=status.rank, arrived=0, completed=0, state=None)
    return status
