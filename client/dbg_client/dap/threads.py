"""Ranks as an IDE's threads: which ranks are listed, their thread numbers, and the events when they change. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import msgspec

from dbg_client.core.choose import is_ready, may_be_picked
from dbg_wire.records.ranks import CRASH, LIVE_STATES, RankInfo, RankState, rank_order

MAX_LISTED = 64
"""Maximum number of ranks listed as threads in one window: IDEs are slow with hundreds, and nobody reads them all."""

_REASONS = {"interrupt": "pause", CRASH: "exception"}
"""DAP names of stop reasons; all other reasons have the same name in DAP."""

_WORDS = {
    "breakpoint": "Paused on breakpoint",
    "interrupt": "Paused",
    CRASH: "Kept after an exception",
    "held": "Held: waits for other ranks",
}
"""Text that an IDE shows next to a thread, by stop reason."""


class ThreadEvent(msgspec.Struct, frozen=True):
    """Event that reports a change of one thread to the IDE."""

    thread: int


class Started(ThreadEvent, frozen=True):
    """The rank is now listed as a thread."""


class Exited(ThreadEvent, frozen=True):
    """The rank is no longer listed: it has exited, or other ranks have taken its place in the list."""


class Continued(ThreadEvent, frozen=True):
    """The rank was resumed, but not by this window."""


class Stopped(ThreadEvent, frozen=True):
    """The rank has stopped; ``is_ours`` means that this window moved or interrupted it."""

    reason: str
    description: str
    text: str = ""
    is_ours: bool = False


@dataclass(slots=True)
class _ReportedState:
    """Last state of one rank that was reported to the IDE.

    ``stop_key`` is None while the rank runs and before its first report. ``stop`` identifies the last reported stop.
    ``left`` is the key of a stop that this window has ended by resuming the rank; the broker may still list the stop.
    """

    thread: int
    version: int = 0
    stop_key: Hashable = None
    stop: int | None = None
    left: Hashable = None
    is_moving: bool = False
    is_stepping: bool = False
    is_ours: bool = False


class ThreadTable:
    """The threads of one window.

    A rank keeps its thread number while its process lives, and no number is reused. Each rank has a version that
    changes whenever it stops or resumes; data that was reported for an earlier version is invalid.
    """

    def __init__(self, most: int = MAX_LISTED) -> None:
        self._most = most
        self._next = 1
        self._seen: dict[str, _ReportedState] = {}
        self._keys: dict[int, str] = {}
        self._listed: dict[str, RankInfo] = {}

    @property
    def listed(self) -> tuple[RankInfo, ...]:
        """The ranks listed as threads, in the IDE's display order."""
        return tuple(self._listed.values())

    def thread(self, key: str) -> int:
        """Return the thread number of a rank, or 0 if the rank is unknown or has exited."""
        return self._of(key).thread

    def key(self, thread: object) -> str | None:
        """Return the key of the rank with this thread number, or None if there is no such rank."""
        return self._keys.get(thread) if isinstance(thread, int) else None

    def version(self, key: str) -> int:
        """Return the version of a rank, or 0 if the rank is gone."""
        return self._of(key).version

    def is_stopped(self, key: str) -> bool:
        """Return True if the rank is shown as stopped in the IDE and this window has not resumed it."""
        seen = self._of(key)
        return seen.stop_key is not None and not seen.is_moving

    # ------------------------------------------------------------------------------------------------- this window acts

    def start_move(self, key: str, *, is_step: bool) -> None:
        """Record that this window moves a rank; the rank's events are not reported until :meth:`end_move`."""
        seen = self._of(key)
        seen.left = None if is_step else seen.stop_key
        seen.version += 1
        seen.is_moving = seen.is_ours = True
        seen.is_stepping = is_step

    def end_move(self, key: str, *, failed: bool = False) -> None:
        """Report events again after the rank has answered; with ``failed``, report its present stop again."""
        seen = self._of(key)
        seen.is_moving, seen.stop_key = False, None
        if failed:
            seen.left, seen.is_stepping = None, False

    def expect_stop(self, key: str) -> None:
        """Record that this window interrupts a rank."""
        self._of(key).is_ours = True

    def _of(self, key: str) -> _ReportedState:
        """Return the state of a rank, or a temporary default state if the rank has exited."""
        return self._seen.get(key) or _ReportedState(0)

    # ---------------------------------------------------------------------------------------------- updates from broker

    def update(self, ranks: Sequence[RankInfo]) -> list[ThreadEvent]:
        """Store the current state of all ranks of the target, and return the events to send to the IDE."""
        self._forget_but({rank.key for rank in ranks})
        for rank in ranks:
            if rank.key not in self._seen:
                self._seen[rank.key] = _ReportedState(self._next)
                self._keys[self._next] = rank.key
                self._next += 1
        chosen = choose_listed(ranks, self._most)
        before, self._listed = self._listed, {rank.key: rank for rank in chosen}
        events: list[ThreadEvent] = []
        for rank in ranks:
            was_listed, is_listed = rank.key in before, rank.key in self._listed
            event = self._follow(rank, is_new=is_listed and not was_listed)
            if is_listed:
                events += [*([] if was_listed else [Started(self._seen[rank.key].thread)]), *event]
            elif was_listed:
                events.append(Exited(self._seen[rank.key].thread))
        return [*(Exited(thread) for thread in self._left_of(before)), *events]

    def _left_of(self, before: dict[str, RankInfo]) -> list[int]:
        """Forget the thread numbers of exited ranks. Return the numbers of those ranks that were listed."""
        gone = [number for number, key in self._keys.items() if key not in self._seen]
        return [number for number in gone if self._keys.pop(number) in before]

    def _forget_but(self, keys: set[str]) -> None:
        for key in [key for key in self._seen if key not in keys]:
            del self._seen[key]

    def _follow(self, rank: RankInfo, *, is_new: bool) -> list[ThreadEvent]:
        seen, stop_key = self._seen[rank.key], stop_key_of(rank)
        if seen.is_moving:
            return []
        if stop_key is not None and stop_key == seen.left:
            # The broker may still list a rank at its stop after the rank was resumed.
            stop_key = None
        else:
            seen.left = None if stop_key is not None else seen.left
        if stop_key == seen.stop_key:
            return [_stopped(rank, seen, again=True)] if is_new and stop_key is not None else []
        seen.stop_key = stop_key
        seen.version += 1
        if stop_key is None:
            seen.is_ours = seen.is_stepping = False
            return [] if is_new else [Continued(seen.thread)]
        event, seen.stop = _stopped(rank, seen), rank.stop
        seen.is_ours = seen.is_stepping = False
        return [event]


def choose_listed(ranks: Sequence[RankInfo], most: int) -> list[RankInfo]:
    """Return the ranks to list: stopped ranks first, then held ranks, then running ranks.

    Among stopped ranks, crashed ranks come first, then ranks at places that few others share.
    """
    places = Counter(rank.where for rank in ranks if is_ready(rank))

    def rating(rank: RankInfo) -> tuple[object, ...]:
        if not is_ready(rank):
            return (1 if may_be_picked(rank) else 2, False, 0, rank_order(rank))
        return (0, rank.reason != CRASH, places[rank.where], rank_order(rank))

    alive = [rank for rank in ranks if rank.state in LIVE_STATES]
    return sorted(alive, key=rating)[:most]


def stop_key_of(rank: RankInfo) -> Hashable:
    """Return a key that changes when the rank stops at another place, or None if the rank is running."""
    if not may_be_picked(rank):
        return None
    # Include the place, because a step from a terminal changes the place but not the number of the stop.
    return rank.state is RankState.HELD, rank.stop_id, rank.where


def _stopped(rank: RankInfo, seen: _ReportedState, *, again: bool = False) -> Stopped:
    reason = "held" if rank.state is RankState.HELD else rank.reason or "breakpoint"
    # A new place within the same stop is a step, made by this window or by a terminal.
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
