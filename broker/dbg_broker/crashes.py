"""Which ranks of a run are kept after a crash, and who is to hear it: the others hold their exits meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dbg_broker.registry import Rank
from dbg_wire.messages import Kept
from dbg_wire.ranks import LIVE_STATES, RankState

CRASH = "crash"
"""Reason of a stop that keeps a crashed rank."""

_Run = tuple[str, str]


class Crashes:
    """Know who belongs to which run and which of them are kept."""

    def __init__(self) -> None:
        self._members: dict[_Run, dict[str, None]] = {}
        self._kept: dict[_Run, dict[str, int]] = {}

    def changed(self, rank: Rank) -> Iterator[tuple[str, Kept]]:
        """Take in a change of a rank; return whom to tell what."""
        run = (rank.said.job, rank.said.run)
        members = self._members.setdefault(run, {})
        kept = self._kept.setdefault(run, {})
        before = _numbers(kept)
        is_new = rank.key not in members and rank.state in LIVE_STATES
        if rank.state in LIVE_STATES:
            members[rank.key] = None
        else:
            members.pop(rank.key, None)
        if _is_kept(rank):
            kept[rank.key] = rank.said.rank
        else:
            kept.pop(rank.key, None)
        now = _numbers(kept)
        if now != before:
            yield from ((key, Kept(ranks=now)) for key in members)
        elif is_new and now:
            yield rank.key, Kept(ranks=now)
        self._drop_empty(run)

    def forget(self, key: str) -> Iterator[tuple[str, Kept]]:
        """Forget a rank that is no longer listed, lost with its crash for instance; return whom to tell what."""
        for run, kept in tuple(self._kept.items()):
            members = self._members[run]
            members.pop(key, None)
            before = _numbers(kept)
            kept.pop(key, None)
            now = _numbers(kept)
            if now != before:
                yield from ((member, Kept(ranks=now)) for member in members)
            self._drop_empty(run)

    def _drop_empty(self, run: _Run) -> None:
        if not self._members[run] and not self._kept[run]:
            del self._members[run], self._kept[run]

    def came_back(self, key: str) -> None:
        """Forget that a rank was told anything: it has a new connection."""
        for members in self._members.values():
            members.pop(key, None)


def _numbers(kept: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sorted(set(kept.values())))


def _is_kept(rank: Rank) -> bool:
    stop = rank.report.stop
    if stop is None or stop.reason != CRASH or rank.state is RankState.EXITED:
        return False
    # One that is lost may still be there, and its stop with it.
    return rank.state in (RankState.STOPPED, RankState.UNRESPONSIVE, RankState.LOST)
