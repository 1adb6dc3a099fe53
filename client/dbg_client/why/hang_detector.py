"""Hang detector: compares answers of a job's ranks over time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from dbg_client.core.asking import Asker
from dbg_wire.messages import Action, DetailLevel, Kind, RankAnswer
from dbg_wire.records.evidence import CollectiveState, Evidence, evidence_in
from dbg_wire.records.ranks import RankInfo, RankState

SLACK_SECONDS = 0.25
"""Tolerance in seconds: snapshots may be slightly early, and ranks measure ages by their own clocks."""


@dataclass(frozen=True, slots=True)
class _RankPlace:
    """Place of a rank in a snapshot.

    ``place`` is a value that changes whenever the rank makes progress. ``since`` is the time at which the rank was
    first seen at this place. ``rests_since`` is the time at which the rank's main thread last used the processor. Both
    times are in seconds. ``is_unfinished`` means that the rank reports an unfinished collective.
    """

    place: Hashable
    since: float
    rests_since: float
    is_unfinished: bool


async def ask_where(asker: Asker, ranks: Sequence[RankInfo]) -> list[RankAnswer] | None:
    """Return the places of the ranks; None without ranks, or while a debugger stops or holds a rank.

    Raises DbgError if the broker fails.
    """
    if not ranks or any(rank.is_paused for rank in ranks):
        return None
    held = (RankState.STOPPED.value, RankState.HELD.value)
    kept = {rank.key for rank in ranks if rank.state is RankState.STOPPED}
    answers = await asker.ask(Action.WHERE, ranks, look=DetailLevel.COLLECTIVES)
    return None if any(answer.text in held and answer.key not in kept for answer in answers) else answers


class HangDetector:
    """Hang detector: reports once that no rank has made progress for ``seconds``, and again only after progress.

    A rank has made progress if its stack has changed, or the state of its collectives. While no rank waits in a
    collective, processor time of a main thread is progress too. While a rank waits in a collective, processor time is
    ignored. Even in a hang, a thread that polls, or spins for a device, uses processor time.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds - SLACK_SECONDS
        self._seen: Mapping[str, _RankPlace] = {}
        self._is_reported = False
        self.is_moving = False
        """Whether a rank has made progress between the two most recent snapshots."""

    def start_again(self) -> None:
        """Discard the snapshots, because a debugger stops or holds ranks, or all ranks are gone."""
        self._seen = {}
        self._is_reported = False

    @property
    def is_reported(self) -> bool:
        """Whether a hang was reported, and no rank has made progress since."""
        return self._is_reported

    def look(self, answers: Sequence[RankAnswer], now: float) -> bool:
        """Process a snapshot: the answers of all ranks. Return True if a hang must be reported now."""
        before = self._seen
        self._seen = {answer.key: _see(answer, before.get(answer.key), now) for answer in answers}
        sights = self._seen.values()
        somebody_waits = any(sight.is_unfinished and now - sight.since >= self._seconds for sight in sights)
        has_moved = self._has_moved(before, somebody_waits=somebody_waits)
        self.is_moving = bool(before) and has_moved
        if has_moved:
            self._is_reported = False
        unmoved = bool(sights) and all(
            now - max(sight.since, 0.0 if somebody_waits else sight.rests_since) >= self._seconds for sight in sights
        )
        is_news = unmoved and not self._is_reported
        self._is_reported = self._is_reported or unmoved
        return is_news

    def _has_moved(self, before: Mapping[str, _RankPlace], *, somebody_waits: bool) -> bool:
        if before.keys() != self._seen.keys():
            return True
        return any(
            sight.place != before[key].place
            or (not somebody_waits and sight.rests_since > before[key].rests_since + SLACK_SECONDS)
            for key, sight in self._seen.items()
        )


def _see(answer: RankAnswer, former: _RankPlace | None, now: float) -> _RankPlace:
    if answer.kind is not Kind.VALUE:
        # A rank that stops answering has not made progress.
        return former or _RankPlace((), now, now, is_unfinished=False)
    evidence = evidence_in(answer.rows)
    place = _place_of(answer, evidence)
    return _RankPlace(
        place,
        since=former.since if former is not None and former.place == place else now,
        rests_since=now - (answer.age or 0.0),
        is_unfinished=evidence is not None
        and any(one.state is not CollectiveState.COMPLETED for one in evidence.collectives),
    )


def _place_of(answer: RankAnswer, evidence: Evidence | None) -> Hashable:
    if evidence is None:
        return answer.frames
    groups = tuple((one.library, one.name, one.enqueued, one.started, one.completed) for one in evidence.groups)
    collectives = tuple((one.group, one.name, one.sequence, one.state, one.peer) for one in evidence.collectives)
    return answer.frames, groups, collectives
