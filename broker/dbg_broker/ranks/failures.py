"""Failures of a run: the first failed rank, and the ranks that are kept after a crash. Pure.

The first failure explains why a launcher ended the other ranks. Ranks that learn of a crash delay their exits.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dbg_broker.feed import NOTHING, Feed
from dbg_broker.ranks.rank_record import RankRecord, RunName
from dbg_wire.messages import Chosen, KeptRanks
from dbg_wire.records.ranks import CRASH, LIVE_STATES, WRONG_NUMBER, RankState
from dbg_wire.records.record import clamp

FOLLOWS_SECONDS = 60.0
"""Time after a failure within which a launcher ends the other ranks, in seconds. Launchers send SIGTERM, and SIGKILL
30 s later.
"""

EARLY_SECONDS = 1.0
"""Tolerance for the order of messages from different hosts, in seconds. The failure that made the launcher end a rank
may reach the broker this much later than the rank's end.
"""

_SENT_BY_LAUNCHERS = frozenset({signal.SIGTERM, signal.SIGKILL})

KEPT = "kept"
"""Name of messages about kept ranks: a new one replaces an earlier one that waits to be sent."""


class Broadcast(NamedTuple):
    """A message and the keys of the ranks that should get it.

    A message with a ``name`` contains the whole state, and replaces an earlier one of this name that waits to be sent.
    A message without a name contains a change, and is useful only to a rank that got the whole state before.
    """

    message: Chosen | KeptRanks
    keys: tuple[str, ...]
    name: Hashable


@dataclass(frozen=True, slots=True)
class _Failure:
    key: str
    at: float
    text: str

    @property
    def cause(self) -> str:
        """Reason why other ranks ended, as the last part of a sentence."""
        return f"likely from its launcher, after {self.text}"


class FirstFailures:
    """First failure of each run, until the failed rank is no longer listed."""

    def __init__(self) -> None:
        self._first: dict[RunName, _Failure] = {}
        self._runs: dict[str, RunName] = {}

    def note(self, rank: RankRecord, everybody: Callable[[], Iterable[RankRecord]]) -> list[RankRecord]:
        """Record how a rank ended. Return the ranks whose end is now explained.

        ``everybody`` returns all ranks. It is called only when a failure becomes the first failure of its run.
        """
        if rank.state is not RankState.EXITED:
            return []
        run = rank.run
        first = self._first.get(run)
        if not has_failed(rank) or (first is not None and first.key != rank.key and first.at <= rank.end.left):
            return [rank] if _explain(rank, first) else []
        return self._enter(run, _Failure(rank.key, rank.end.left, how_it_failed(rank)), everybody)

    def hear(
        self, run: RunName, key: str, at: float, how: str, everybody: Callable[[], Iterable[RankRecord]]
    ) -> list[RankRecord]:
        """Record how a rank at another broker failed. Return the ranks here whose end is now explained."""
        first = self._first.get(run)
        if first is not None and first.key != key and first.at <= at:
            return []
        return self._enter(run, _Failure(key, at, how), everybody)

    def _enter(
        self, run: RunName, failure: _Failure, everybody: Callable[[], Iterable[RankRecord]]
    ) -> list[RankRecord]:
        first = self._first.get(run)
        if first == failure:
            return []
        self._forget_run(run)
        self._first[run] = failure
        self._runs[failure.key] = run
        others = (other for other in everybody() if other.run == run)
        return [other for other in others if _explain(other, failure, first)]

    def forget(self, key: str) -> None:
        """Forget a rank that is no longer listed."""
        run = self._runs.get(key)
        if run is not None:
            self._forget_run(run)

    def _forget_run(self, run: RunName) -> None:
        failure = self._first.pop(run, None)
        if failure is not None:
            del self._runs[failure.key]


def has_failed(rank: RankRecord) -> bool:
    """Return True if a rank failed. SIGTERM does not count, because its launcher may have sent it.

    How a rank ended may become known later than its end; until then this returns False.
    """
    return rank.end.exit is not None and rank.end.exit not in (0, -signal.SIGTERM)


def _explain(rank: RankRecord, first: _Failure | None, before: _Failure | None = None) -> bool:
    """Record the cause of a rank's end if a launcher ended it after the failure ``first``.

    Return True if the cause changed. ``before`` is the failure that was taken for the first one until now.
    """
    if first is None or first.key == rank.key or rank.state is not RankState.EXITED:
        return False
    if rank.end.cause and (before is None or rank.end.cause != before.cause):
        return False
    if rank.end.signal not in _SENT_BY_LAUNCHERS or not -EARLY_SECONDS <= rank.end.left - first.at <= FOLLOWS_SECONDS:
        return False
    rank.end.cause = first.cause
    return True


def how_it_failed(rank: RankRecord) -> str:
    """Return how a rank failed, as a part of a sentence, or an empty string if it did not fail."""
    if rank.state is not RankState.EXITED or not has_failed(rank):
        return ""
    end = rank.end.listed()
    return f"rank {rank.identity.rank} {'was' if end.signal else 'had'} {end.state}"


@dataclass(slots=True)
class _Launch:
    """A run: the read position of each live rank in the feed of changes, and the number of each kept rank."""

    members: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)


class CrashedRanks:
    """Ranks of each run, and which of them are kept after a crash. The length is the number of runs."""

    def __init__(self) -> None:
        self._launches: dict[RunName, _Launch] = {}
        self._run_of: dict[str, RunName] = {}
        self._feed: Feed[RunName] = Feed()
        """Runs whose kept ranks have changed."""
        self._due: dict[RunName, None] = {}

    def __len__(self) -> int:
        return len(self._launches)

    def changed(self, rank: RankRecord) -> bool:
        """Handle a change of a rank. Return True if :meth:`news` has an update for a rank."""
        run = rank.run
        if self._run_of.get(rank.key, run) != run:
            self.forget(rank.key)
        launch = self._launches.setdefault(run, _Launch())
        self._run_of[rank.key] = run
        if rank.state not in LIVE_STATES:
            launch.members.pop(rank.key, None)
        elif rank.key not in launch.members:
            launch.members[rank.key] = NOTHING if launch.kept else self._feed.end
            if launch.kept:
                self._due[run] = None
        return self.hear(run, rank.key, rank.identity.rank if is_kept(rank) else None)

    def hear(self, run: RunName, key: str, number: int | None) -> bool:
        """Record whether a rank at any broker is kept: ``number`` is its number, or None if it is not kept.

        Return True if :meth:`news` has an update for a rank.
        """
        launch = self._launches.setdefault(run, _Launch())
        self._run_of[key] = run
        if number != launch.kept.get(key):
            if number is not None:
                launch.kept[key] = number
            else:
                del launch.kept[key]
            self._notify(run)
        self._drop_empty(key, run)
        return bool(self._due)

    def news(self) -> Iterator[Broadcast]:
        """Return the updates to send now, and record them as sent."""
        due, self._due = self._due, {}
        for run in due:
            launch = self._launches.get(run)
            if launch is None:
                continue
            keys = tuple(key for key, place in launch.members.items() if self._feed.has_changed(run, place))
            launch.members.update(dict.fromkeys(keys, self._feed.end))
            if keys:
                yield Broadcast(clamp(KeptRanks, ranks=tuple(sorted(set(launch.kept.values())))), keys, KEPT)

    def forget(self, key: str) -> bool:
        """Forget a rank that is no longer listed, such as a lost rank that was kept after a crash.

        Return True if other ranks of its run need an update.
        """
        run = self._run_of.get(key)
        if run is None:
            return False
        launch = self._launches[run]
        launch.members.pop(key, None)
        if launch.kept.pop(key, None) is not None:
            self._notify(run)
        self._drop_empty(key, run)
        return bool(self._due)

    def reconnected(self, key: str) -> None:
        """Forget which updates a rank got, so that its new connection gets the whole state."""
        run = self._run_of.get(key)
        if run is not None:
            self._launches[run].members.pop(key, None)
            self._drop_empty(key, run)

    def _notify(self, run: RunName) -> None:
        self._feed.changed(run)
        self._due[run] = None

    def _drop_empty(self, key: str, run: RunName) -> None:
        launch = self._launches[run]
        if key not in launch.members and key not in launch.kept:
            self._run_of.pop(key, None)
        if not launch.members and not launch.kept:
            del self._launches[run]
            self._feed.forget(run)


def is_kept(rank: RankRecord) -> bool:
    """Return True if a rank is kept after a crash, or stopped at a wrong number; the other ranks of its run wait."""
    stop = rank.report.stop
    if stop is None or stop.reason not in (CRASH, WRONG_NUMBER) or rank.state is RankState.EXITED:
        return False
    # A lost rank may be kept, too: its process may still exist and be stopped.
    return rank.state in (RankState.STOPPED, RankState.UNRESPONSIVE, RankState.LOST)
