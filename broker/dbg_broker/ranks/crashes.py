"""Which ranks of a run are kept after a crash, and which ranks are told: these delay their exits meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dbg_broker.ranks.rank_record import RankRecord
from dbg_broker.ranks.spread import Telling
from dbg_wire.messages import Kept
from dbg_wire.records.ranks import LIVE_STATES, RankState
from dbg_wire.records.record import fitted

CRASH = "crash"
"""Reason of a stop that keeps a crashed rank."""

KEPT = "kept"
"""Name of the message, which replaces an earlier one of this name that waits to be sent."""

_Run = tuple[str, str]


@dataclass(slots=True)
class _Launch:
    """The ranks of a run, those that are kept, those that have not been told yet, and what the others were told."""

    members: dict[str, None] = field(default_factory=dict)
    newcomers: dict[str, None] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    told: tuple[int, ...] = ()


class CrashedRanks:
    """The ranks of each run, and which of them are kept. The length is the number of runs."""

    def __init__(self) -> None:
        self._launches: dict[_Run, _Launch] = {}
        self._run_of: dict[str, _Run] = {}
        self._due: dict[_Run, None] = {}

    def __len__(self) -> int:
        return len(self._launches)

    def changed(self, rank: RankRecord) -> bool:
        """Take in a change of a rank; tell whether :meth:`tell` has something for a rank."""
        run = (rank.said.job, rank.said.run)
        if self._run_of.get(rank.key, run) != run:
            self.forget(rank.key)
        launch = self._launches.setdefault(run, _Launch())
        self._run_of[rank.key] = run
        if rank.state not in LIVE_STATES:
            launch.members.pop(rank.key, None)
            launch.newcomers.pop(rank.key, None)
        elif rank.key not in launch.members:
            launch.members[rank.key] = launch.newcomers[rank.key] = None
            if launch.kept:
                self._due[run] = None
        number = rank.said.rank if _is_kept(rank) else None
        if number != launch.kept.get(rank.key):
            self._due[run] = None
            if number is not None:
                launch.kept[rank.key] = number
            else:
                del launch.kept[rank.key]
        self._drop_empty(rank.key, run)
        return bool(self._due)

    def tell(self) -> Iterator[Telling]:
        """Return what is to be told to which ranks now; it counts as told then."""
        due, self._due = self._due, {}
        for run in due:
            launch = self._launches.get(run)
            if launch is None:
                continue
            numbers = tuple(sorted(set(launch.kept.values())))
            listeners = launch.members if numbers != launch.told else launch.newcomers
            has_news = listeners and (numbers or numbers != launch.told)
            # More ranks may come before the next telling is asked for.
            launch.told, launch.newcomers = numbers, {}
            if has_news:
                yield Telling(fitted(Kept, ranks=numbers), tuple(listeners), KEPT)

    def forget(self, key: str) -> bool:
        """Forget a rank that is no longer listed, such as one lost with its crash; tell whether others must hear."""
        run = self._run_of.get(key)
        if run is None:
            return False
        launch = self._launches[run]
        launch.members.pop(key, None)
        launch.newcomers.pop(key, None)
        if launch.kept.pop(key, None) is not None:
            self._due[run] = None
        self._drop_empty(key, run)
        return bool(self._due)

    def came_back(self, key: str) -> None:
        """Forget that a rank was told anything: it has a new connection."""
        run = self._run_of.get(key)
        if run is not None:
            self._launches[run].members.pop(key, None)
            self._drop_empty(key, run)

    def _drop_empty(self, key: str, run: _Run) -> None:
        launch = self._launches[run]
        if key not in launch.members and key not in launch.kept:
            self._run_of.pop(key, None)
        if not launch.members and not launch.kept:
            del self._launches[run]


def _is_kept(rank: RankRecord) -> bool:
    stop = rank.report.stop
    if stop is None or stop.reason != CRASH or rank.state is RankState.EXITED:
        return False
    # The process of a lost rank may still be there, and its stop with it.
    return rank.state in (RankState.STOPPED, RankState.UNRESPONSIVE, RankState.LOST)
