"""What held ranks are told about the ranks that they wait for. Pure.

Ranks restate all facts of a hold when they register, so a new broker knows them again. A held rank is told once of all
ranks that it waits for, and after that of those that changed. Ranks that wait for the same ranks at the same place are
told the same, so that the message of a change is made once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dbg_broker.feed import NOTHING, Feed
from dbg_broker.ranks.elsewhere import Elsewhere, RankFact
from dbg_broker.ranks.failures import Broadcast
from dbg_broker.ranks.rank_record import RankRecord, RunName
from dbg_broker.ranks.registry import Registry
from dbg_wire.messages import Chosen, ChosenRank, Kept, Waiting
from dbg_wire.records.ranks import RankState

PAUSE = Broadcast(Kept(ranks=()), (), None)
"""A message for nobody: others may have a turn meanwhile."""

RANKS_AT_ONCE = 256
"""Ranks in one message about those that others wait for: it is made in two milliseconds."""

_HoldStatus = tuple[ChosenRank, float]
"""How far a rank is, and when it ended if it did."""


@dataclass(slots=True, eq=False)
class _Site:
    """A place at which ranks of a run are held until others have come there.

    ``told`` is what held ranks have been told of each rank, or will be. ``groups`` are the keys of held ranks by the
    ranks that they wait for, with the place in the feed up to which they have been told.
    """

    run: RunName
    name: str
    feed: Feed[int] = field(default_factory=Feed)
    told: dict[int, _HoldStatus] = field(default_factory=dict)
    changed: dict[int, None] = field(default_factory=dict)
    """Ranks of which that may be true no longer."""
    groups: dict[tuple[int, ...], dict[str, int]] = field(default_factory=dict)


class HeldRanks:
    """By run, which rank has which key, which ranks wait, and what is still to be told to these."""

    def __init__(self, registry: Registry, elsewhere: Elsewhere) -> None:
        self._registry, self._elsewhere = registry, elsewhere
        self._keys: dict[tuple[RunName, int], str] = {}
        self._places: dict[str, tuple[RunName, int]] = {}
        self._sites: dict[RunName, dict[str, _Site]] = {}
        self._waiting: dict[str, tuple[_Site, Waiting]] = {}
        self._due: dict[_Site, None] = {}

    def changed(self, rank: RankRecord) -> bool:
        """Take in a change of a rank; tell whether :meth:`news` has something for a rank."""
        run, number = rank.run, rank.identity.rank
        if rank.child is None and (rank.is_live or (run, number) not in self._keys):
            # A rank that ended may still change when a relaunched rank has its number already.
            self._settle(rank.key, (run, number))
        is_held = rank.is_live and rank.report.state is RankState.HELD
        self._wait(rank, run, rank.report.waits if is_held else None)
        if rank.child is None:
            self._look(run, number)
        return bool(self._due)

    def hear(self, fact: RankFact) -> bool:
        """Take in a change of a rank at another broker; return what :meth:`changed` does."""
        place = fact.launch, fact.number
        if not fact.is_child:
            if fact.is_live or place not in self._keys:
                self._settle(fact.key, place)
            self._look(*place)
        return bool(self._due)

    def _look(self, run: RunName, number: int) -> None:
        """Note that what was told of a rank may be true no longer."""
        for site in self._sites.get(run, {}).values():
            if number in site.told:
                site.changed[number] = None
                self._due[site] = None

    def news(self) -> Iterator[Broadcast]:
        """Return what is to be told to which ranks now, in order for each rank; it counts as told then."""
        due, self._due = self._due, {}
        for site in due:
            yield from self._take_changes(site)
            for ranks, members in tuple(site.groups.items()):
                together: defaultdict[int, list[str]] = defaultdict(list)
                for key, place in members.items():
                    together[place].append(key)
                    members[key] = site.feed.end
                for place, keys in together.items():
                    yield from self._since(site, ranks, place, tuple(keys))

    def _take_changes(self, site: _Site) -> Iterator[Broadcast]:
        """Enter into the feed what differs from what was told of ranks that have changed."""
        changed, site.changed = site.changed, {}
        for count, number in enumerate(changed, 1):
            if site.told[number] != (status := self._status(site, number)):
                site.told[number] = status
                site.feed.changed(number)
            if count % RANKS_AT_ONCE == 0:
                yield PAUSE

    def _since(self, site: _Site, ranks: tuple[int, ...], place: int, keys: tuple[str, ...]) -> Iterator[Broadcast]:
        """Return what these keys, which have been told up to a place, are told of the ranks that they wait for."""
        is_all = place == NOTHING
        numbers = ranks if is_all else tuple(filter(frozenset(ranks).__contains__, site.feed.since(place)))
        for begin in range(0, len(numbers), RANKS_AT_ONCE):
            some = numbers[begin : begin + RANKS_AT_ONCE]
            for number in some:
                site.told[number] = self._status(site, number)
            yield from self._broadcasts(site, some, keys, ("chosen", site.name, begin) if is_all else None)

    def missed(self, key: str) -> None:
        """Note that a rank was behind and has not been sent what changed: it is told all at the next occasion."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            site, waits = waiting
            site.groups[waits.ranks][key] = NOTHING
            self._due[site] = None

    def came_back(self, key: str) -> None:
        """Forget what a rank was told: it has a new connection."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return
        site, waits = waiting
        members = site.groups[waits.ranks]
        del members[key]
        if not members:
            del site.groups[waits.ranks]
        if not site.groups:
            self._due.pop(site, None)
            del self._sites[site.run][site.name]
            if not self._sites[site.run]:
                del self._sites[site.run]

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
        sites = self._sites.setdefault(run, {})
        site = sites.get(waits.site)
        if site is None:
            site = sites[waits.site] = _Site(run, waits.site)
        site.groups.setdefault(waits.ranks, {})[rank.key] = NOTHING
        self._waiting[rank.key] = site, waits
        self._due[site] = None

    def _status(self, site: _Site, number: int) -> _HoldStatus:
        key = self._keys.get((site.run, number), "")
        rank, fact = self._registry.find(key), self._elsewhere.find(key)
        if rank is not None and not self._elsewhere.has(rank):
            arrivals, state, ended = rank.report.arrivals, rank.state, 0.0 if rank.is_live else rank.end.at
        elif fact is not None:
            arrivals, state, ended = fact.arrivals, fact.state, fact.ended
        else:
            return ChosenRank(rank=number, arrived=0, completed=0, state=None), 0.0
        at = next((arrival for arrival in arrivals if arrival.site == site.name), None)
        arrived, completed = (at.arrived, at.completed) if at is not None else (0, 0)
        return ChosenRank(rank=number, arrived=arrived, completed=completed, state=state), ended

    def _broadcasts(
        self, site: _Site, numbers: Iterable[int], keys: tuple[str, ...], name: tuple[str, str, int] | None
    ) -> Iterator[Broadcast]:
        """Return how far these ranks are, for each of these keys; ranks that are told the same share a telling."""
        said = [site.told[number] for number in numbers]
        ends = sorted({ended for status, ended in said if status.state in (RankState.LOST, RankState.EXITED)})
        together: defaultdict[int, list[str]] = defaultdict(list)
        for key in keys:
            waiter = self._registry.find(key)
            # A rank that ended before the waiting rank came was of an earlier launch with the same names.
            together[bisect_left(ends, waiter.entered) if waiter is not None else 0].append(key)
        for earlier, listeners in together.items():
            former = ends[earlier - 1] if earlier else None
            ranks = tuple(_as_of_now(status, ended, former) for status, ended in said)
            yield Broadcast(Chosen(site=site.name, ranks=ranks), tuple(listeners), name)


def _as_of_now(status: ChosenRank, ended: float, former: float | None) -> ChosenRank:
    """Return how far a rank is, or that there is none yet if it ended with a former launch."""
    if former is not None and status.state in (RankState.LOST, RankState.EXITED) and ended <= former:
        return ChosenRank(rank=status.rank, arrived=0, completed=0, state=None)
    return status
