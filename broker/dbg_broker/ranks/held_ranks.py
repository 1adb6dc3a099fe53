"""Updates for held ranks about the ranks that they wait for. Pure.

Ranks repeat all facts of a hold when they register, so a new broker knows them again. A held rank first gets the state
of all ranks that it waits for, and then the changes. Ranks that wait at the same place for the same ranks get the same
message, so each change is encoded once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dbg_broker.feed import NOTHING, Feed
from dbg_broker.ranks.failures import Broadcast
from dbg_broker.ranks.rank_record import RankRecord, RunName
from dbg_broker.ranks.registry import Registry
from dbg_broker.ranks.remote_ranks import RankFact, RemoteRanks
from dbg_wire.messages import Chosen, ChosenRank, KeptRanks, Waiting
from dbg_wire.records.ranks import RankState

PAUSE = Broadcast(KeptRanks(ranks=()), (), None)
"""Message without receivers: it ends a slice of work, so that other work gets a turn."""

RANKS_AT_ONCE = 256
"""Maximum number of ranks in one message about awaited ranks: to make such a message takes two milliseconds."""

_HoldStatus = tuple[ChosenRank, float]
"""Progress of a rank, and when it ended (0 if it did not)."""


@dataclass(slots=True, eq=False)
class _Site:
    """Place where ranks of a run are held until others arrive.

    ``status`` has the state of each awaited rank in the latest update about it. ``groups`` has, for each set of awaited
    ranks, the held ranks that wait for it, with their read positions in ``feed``.
    """

    run: RunName
    name: str
    feed: Feed[int] = field(default_factory=Feed)
    status: dict[int, _HoldStatus] = field(default_factory=dict)
    changed: dict[int, None] = field(default_factory=dict)
    """Awaited ranks whose state in ``status`` may be outdated."""
    groups: dict[tuple[int, ...], dict[str, int]] = field(default_factory=dict)


class HeldRanks:
    """For each run: the key of each rank, the ranks that wait, and the updates that they still need."""

    def __init__(self, registry: Registry, elsewhere: RemoteRanks) -> None:
        self._registry, self._elsewhere = registry, elsewhere
        self._keys: dict[tuple[RunName, int], str] = {}
        self._places: dict[str, tuple[RunName, int]] = {}
        self._sites: dict[RunName, dict[str, _Site]] = {}
        self._waiting: dict[str, tuple[_Site, Waiting]] = {}
        self._due: dict[_Site, None] = {}

    def changed(self, rank: RankRecord) -> bool:
        """Handle a change of a rank. Return True if :meth:`news` has an update for a rank."""
        run, number = rank.run, rank.identity.rank
        if rank.child is None and (rank.is_live or (run, number) not in self._keys):
            # An ended rank may still change after a relaunched rank got its number. The ended rank must not take this
            # number back.
            self._settle(rank.key, (run, number))
        is_held = rank.is_live and rank.report.state is RankState.HELD
        self._wait(rank, run, rank.report.waits if is_held else None)
        if rank.child is None:
            self._check(run, number)
        return bool(self._due)

    def hear(self, fact: RankFact) -> bool:
        """Handle a change of a rank at another broker. Return True if :meth:`news` has an update for a rank."""
        place = fact.launch, fact.number
        if not fact.is_child:
            if fact.is_live or place not in self._keys:
                self._settle(fact.key, place)
            self._check(*place)
        return bool(self._due)

    def _check(self, run: RunName, number: int) -> None:
        """Record that a rank's state in the latest update about it may be outdated."""
        for site in self._sites.get(run, {}).values():
            if number in site.status:
                site.changed[number] = None
                self._due[site] = None

    def news(self) -> Iterator[Broadcast]:
        """Return the updates to send now, in order for each rank, and record them as sent."""
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
        """Add ranks to the feed if their state differs from the state that was sent."""
        changed, site.changed = site.changed, {}
        for count, number in enumerate(changed, 1):
            if site.status[number] != (status := self._status(site, number)):
                site.status[number] = status
                site.feed.changed(number)
            if count % RANKS_AT_ONCE == 0:
                yield PAUSE

    def _since(self, site: _Site, ranks: tuple[int, ...], place: int, keys: tuple[str, ...]) -> Iterator[Broadcast]:
        """Return the updates for held ranks with these keys, which have read the feed up to ``place``."""
        is_all = place == NOTHING
        numbers = ranks if is_all else tuple(filter(frozenset(ranks).__contains__, site.feed.since(place)))
        for start in range(0, len(numbers), RANKS_AT_ONCE):
            some = numbers[start : start + RANKS_AT_ONCE]
            for number in some:
                site.status[number] = self._status(site, number)
            yield from self._broadcasts(site, some, keys, ("chosen", site.name, start) if is_all else None)

    def missed(self, key: str) -> None:
        """Record that a rank missed an update because it was behind: it gets the whole state next time."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            site, waits = waiting
            site.groups[waits.ranks][key] = NOTHING
            self._due[site] = None

    def reconnected(self, key: str) -> None:
        """Forget which updates a rank got, so that its new connection gets the whole state."""
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
        self.reconnected(key)
        place = self._places.pop(key, None)
        if place is not None and self._keys.get(place) == key:
            del self._keys[place]

    # --------------------------------------------------------------------------------------------------------- internal

    def _settle(self, key: str, place: tuple[RunName, int]) -> None:
        """Record the key of the rank with this run and number."""
        before = self._places.get(key)
        if before is not None and before != place and self._keys.get(before) == key:
            del self._keys[before]
        self._places[key] = place
        self._keys[place] = key

    def _wait(self, rank: RankRecord, run: RunName, waits: Waiting | None) -> None:
        before = self._waiting.get(rank.key)
        if before is not None and before[1] == waits and before[0].run == run:
            return
        self.reconnected(rank.key)
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
        """Return updates about the ranks ``numbers`` for the ranks ``keys``.

        Receivers of equal updates share a message.
        """
        statuses = [site.status[number] for number in numbers]
        ends = sorted({ended for status, ended in statuses if status.state in (RankState.LOST, RankState.EXITED)})
        together: defaultdict[int, list[str]] = defaultdict(list)
        for key in keys:
            waiter = self._registry.find(key)
            # A rank that ended before the waiting rank registered belongs to an earlier launch with the same names.
            together[bisect_left(ends, waiter.entered) if waiter is not None else 0].append(key)
        for earlier, listeners in together.items():
            former = ends[earlier - 1] if earlier else None
            ranks = tuple(_as_of_now(status, ended, former) for status, ended in statuses)
            yield Broadcast(Chosen(site=site.name, ranks=ranks), tuple(listeners), name)


def _as_of_now(status: ChosenRank, ended: float, former: float | None) -> ChosenRank:
    """Return a rank's status. If the rank ended in an earlier launch, return a status without state and progress."""
    if former is not None and status.state in (RankState.LOST, RankState.EXITED) and ended <= former:
        return ChosenRank(rank=status.rank, arrived=0, completed=0, state=None)
    return status
