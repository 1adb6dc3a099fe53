"""Which rank of a run has failed first, by which it is told why a launcher has ended the others. Pure."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dbg_broker.ranks.rank_record import RankRecord
from dbg_wire.records.ranks import RankState

FOLLOWS_SECONDS = 60.0
"""Seconds after a failure within which a launcher ends the other ranks, by SIGKILL half a minute after SIGTERM."""

EARLY_SECONDS = 1.0
"""Seconds by which the broker may hear of such an end before it hears of the failure: hosts have ways of their own."""

Run = tuple[str, str]
"""Job and run: the ranks that a launcher ends together."""

_SENT_BY_LAUNCHERS = frozenset({signal.SIGTERM, signal.SIGKILL})


@dataclass(frozen=True, slots=True)
class _Failure:
    key: str
    at: float
    text: str

    @property
    def cause(self) -> str:
        """Return who ended the others, as the end of a sentence."""
        return f"likely from its launcher, after {self.text}"


class FirstFailures:
    """The first failure of each run that is still listed."""

    def __init__(self) -> None:
        self._first: dict[Run, _Failure] = {}
        self._runs: dict[str, Run] = {}

    def note(self, rank: RankRecord, everybody: Callable[[], Iterable[RankRecord]]) -> list[RankRecord]:
        """Note how a rank has ended; return the ranks whose cause is known by that now.

        ``everybody`` returns all ranks there are. It is asked only when a failure becomes the first one of its run.
        """
        if rank.state is not RankState.EXITED:
            return []
        run = rank.said.job, rank.said.run
        first = self._first.get(run)
        if not has_failed(rank) or (first is not None and first.key != rank.key and first.at <= rank.left):
            return [rank] if _explain(rank, first) else []
        failure = _Failure(rank.key, rank.left, _how(rank))
        if first == failure:
            return []
        self._forget_run(run)
        self._first[run] = failure
        self._runs[rank.key] = run
        others = (other for other in everybody() if (other.said.job, other.said.run) == run)
        return [other for other in others if _explain(other, failure, first)]

    def forget(self, key: str) -> None:
        """Forget a rank that is no longer listed."""
        run = self._runs.get(key)
        if run is not None:
            self._forget_run(run)

    def _forget_run(self, run: Run) -> None:
        failure = self._first.pop(run, None)
        if failure is not None:
            del self._runs[failure.key]


def has_failed(rank: RankRecord) -> bool:
    """Tell whether a rank has ended badly, and not by the signal that its launcher may have sent.

    How a rank has ended may become known later than that it has; until then nothing is told of it.
    """
    return rank.exit is not None and rank.exit not in (0, -signal.SIGTERM)


def _explain(rank: RankRecord, first: _Failure | None, before: _Failure | None = None) -> bool:
    """Enter who ended a rank, if a launcher has done so after that failure; return whether that is news.

    ``before`` is what was known as the first failure until now.
    """
    if first is None or first.key == rank.key or rank.state is not RankState.EXITED:
        return False
    if rank.cause and (before is None or rank.cause != before.cause):
        return False
    if rank.signal not in _SENT_BY_LAUNCHERS or not -EARLY_SECONDS <= rank.left - first.at <= FOLLOWS_SECONDS:
        return False
    rank.cause = first.cause
    return True


def _how(rank: RankRecord) -> str:
    status = rank.exit or 0
    if status > 0:
        return f"rank {rank.said.rank} had exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"rank {rank.said.rank} was killed by {name}"
