"""Ranks as an IDE's threads: which are listed, under which number, and what is told as they come and go. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import msgspec

from dbg_client.core.choose import is_ready, may_be_picked
from dbg_wire.records.ranks import CRASH, LIVE_STATES, RankInfo, RankState, rank_order

MAX_LISTED = 64
"""Ranks that are threads of one window: IDEs get slow with some hundred threads, and nobody reads more."""

_REASONS = {"interrupt": "pause", CRASH: "exception"}
"""The protocol's words for reasons; the others are the same."""

_WORDS = {
    "breakpoint": "Paused on breakpoint",
    "interrupt": "Paused",
    CRASH: "Kept after an exception",
    "held": "Held: waits for other ranks",
}
"""What an IDE shows beside a thread."""


class ThreadEvent(msgspec.Struct, frozen=True):
    """What the IDE is told of a thread."""

    thread: int


class Started(ThreadEvent, frozen=True):
    """A rank is listed now."""


class Exited(ThreadEvent, frozen=True):
    """A rank is not listed any more: it has ended, or others have taken its place."""


class Continued(ThreadEvent, frozen=True):
    """A rank has gone on, and this window has not asked for it."""


class Stopped(ThreadEvent, frozen=True):
    """A rank stands. ``is_ours`` tells that this window has made it move or stop."""

    reason: str
    description: str
    text: str = ""
    is_ours: bool = False


@dataclass(slots=True)
class _Seen:
    """What the window knows of one rank. ``moment`` is None while it runs, or has yet to be told of.

    ``stop`` is the number of the stop that the IDE was told of last.
    """

    thread: int
    version: int = 0
    moment: Hashable = None
    stop: int | None = None
    left: Hashable = None
    is_moving: bool = False
    is_stepping: bool = False
    is_ours: bool = False


class ThreadTable:
    """The threads of one window.

    A rank keeps its number as long as its process lives; no number is used twice. Each has a version, which changes
    when the rank stops or moves: what was told of an earlier version does not hold any more.
    """

    def __init__(self, most: int = MAX_LISTED) -> None:
        self._most = most
        self._next = 1
        self._seen: dict[str, _Seen] = {}
        self._keys: dict[int, str] = {}
        self._listed: dict[str, RankInfo] = {}

    @property
    def listed(self) -> tuple[RankInfo, ...]:
        """Return the ranks that are threads, in the order in which an IDE shows them."""
        return tuple(self._listed.values())

    def thread(self, key: str) -> int:
        """Return the number of a rank, 0 if the window has not met it."""
        return self._of(key).thread

    def key(self, thread: object) -> str | None:
        """Return the key of the rank with this number; None if there is none."""
        return self._keys.get(thread) if isinstance(thread, int) else None

    def version(self, key: str) -> int:
        """Return the version of a rank; 0 if there is no such rank any more."""
        return self._of(key).version

    def stands(self, key: str) -> bool:
        """Tell whether the IDE has been told that this rank stands, and has not made it move since."""
        seen = self._of(key)
        return seen.moment is not None and not seen.is_moving

    # ------------------------------------------------------------------------------------------------- this window acts

    def begin_move(self, key: str, *, is_step: bool) -> None:
        """Note that this window makes a rank move: it is told nothing of that rank until :meth:`end_move`."""
        seen = self._of(key)
        seen.left = None if is_step else seen.moment
        seen.version += 1
        seen.is_moving = seen.is_ours = True
        seen.is_stepping = is_step

    def end_move(self, key: str, *, failed: bool = False) -> None:
        """Note that the rank has answered: its next stop is told of, and with ``failed`` where it still stands."""
        seen = self._of(key)
        seen.is_moving, seen.moment = False, None
        if failed:
            seen.left, seen.is_stepping = None, False

    def expect_stop(self, key: str) -> None:
        """Note that this window breaks into a rank."""
        self._of(key).is_ours = True

    def _of(self, key: str) -> _Seen:
        """Return what is known of a rank; of one that has ended meanwhile something that nobody keeps."""
        return self._seen.get(key) or _Seen(0)

    # --------------------------------------------------------------------------------------------- what the broker says

    def update(self, ranks: Sequence[RankInfo]) -> list[ThreadEvent]:
        """Take all ranks of the target as they are now, and return what the IDE is to be told."""
        self._forget_but({rank.key for rank in ranks})
        for rank in ranks:
            if rank.key not in self._seen:
                self._seen[rank.key] = _Seen(self._next)
                self._keys[self._next] = rank.key
                self._next += 1
        chosen = choose_listed(ranks, self._most)
        before, self._listed = self._listed, {rank.key: rank for rank in chosen}
        events: list[ThreadEvent] = []
        for rank in ranks:
            was_listed, is_listed = rank.key in before, rank.key in self._listed
            told = self._follow(rank, is_new=is_listed and not was_listed)
            if is_listed:
                events += [*([] if was_listed else [Started(self._seen[rank.key].thread)]), *told]
            elif was_listed:
                events.append(Exited(self._seen[rank.key].thread))
        return [*(Exited(thread) for thread in self._left_of(before)), *events]

    def _left_of(self, before: dict[str, RankInfo]) -> list[int]:
        """Return the numbers of listed ranks that have ended, and forget them."""
        gone = [number for number, key in self._keys.items() if key not in self._seen]
        return [number for number in gone if self._keys.pop(number) in before]

    def _forget_but(self, keys: set[str]) -> None:
        for key in [key for key in self._seen if key not in keys]:
            del self._seen[key]

    def _follow(self, rank: RankInfo, *, is_new: bool) -> list[ThreadEvent]:
        seen, moment = self._seen[rank.key], moment_of(rank)
        if seen.is_moving:
            return []
        if moment is not None and moment == seen.left:
            # A rank that was told to go on is still listed at the stop that it has left.
            moment = None
        else:
            seen.left = None if moment is not None else seen.left
        if moment == seen.moment:
            return [_stopped(rank, seen, again=True)] if is_new and moment is not None else []
        seen.moment = moment
        seen.version += 1
        if moment is None:
            seen.is_ours = seen.is_stepping = False
            return [] if is_new else [Continued(seen.thread)]
        told, seen.stop = _stopped(rank, seen), rank.stop
        seen.is_ours = seen.is_stepping = False
        return [told]


def choose_listed(ranks: Sequence[RankInfo], most: int) -> list[RankInfo]:
    """Return the ranks that are threads: the stopped ones, then those that are held, then those that run.

    Of the stopped ones those that have crashed come first, and then those where the fewest others are.
    """
    places = Counter(rank.where for rank in ranks if is_ready(rank))

    def rating(rank: RankInfo) -> tuple[object, ...]:
        if not is_ready(rank):
            return (1 if may_be_picked(rank) else 2, False, 0, rank_order(rank))
        return (0, rank.reason != CRASH, places[rank.where], rank_order(rank))

    alive = [rank for rank in ranks if rank.state in LIVE_STATES]
    return sorted(alive, key=rating)[:most]


def moment_of(rank: RankInfo) -> Hashable:
    """Return what tells where a rank stands now from where it stands later; None for one that runs."""
    if not may_be_picked(rank):
        return None
    # A terminal that steps the rank changes its place; the number of the stop stays the same meanwhile.
    return rank.state is RankState.HELD, rank.occasion, rank.where


def _stopped(rank: RankInfo, seen: _Seen, *, again: bool = False) -> Stopped:
    reason = "held" if rank.state is RankState.HELD else rank.reason or "breakpoint"
    # A move within one stop is a step, of this window or of a terminal.
    is_step = seen.is_stepping if rank.stop is None else seen.stop == rank.stop
    if is_step and not again and reason not in (CRASH, "held"):
        return Stopped(seen.thread, "step", "Paused on step", is_ours=seen.is_ours)
    return Stopped(
        seen.thread,
        _REASONS.get(reason, reason),
        _WORDS.get(reason, "Paused"),
        text=rank.detail,
        is_ours=seen.is_ours,
    )
