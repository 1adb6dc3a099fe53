"""When to probe which rank, and which ranks have fallen silent.

Pure: time is an argument. One heap holds all ranks, so that the cost of a sweep depends on the ranks that are due.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from dbg_wire import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeIntervals:
    """Seconds between two probes of a rank that a terminal looks at, and of any other rank."""

    attended: float = limits.PROBE_ATTENDED_SECONDS
    idle: float = limits.PROBE_IDLE_SECONDS


@dataclass(slots=True)
class _Probed:
    due: float
    unanswered: int = 0
    attended: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """The ranks to probe now, and those that have left their probes unanswered."""

    probe: list[str]
    silent: list[str]


class ProbeSchedule:
    """For each connected rank, when its next probe is due and how many wait for an answer.

    A silent rank is not probed again: it answers the waiting probes when it goes on, and more would only pile up.
    """

    def __init__(self, intervals: ProbeIntervals) -> None:
        self._intervals = intervals
        self._ranks: dict[str, _Probed] = {}
        self._heap: list[tuple[float, str]] = []

    def add(self, key: str, now: float) -> None:
        """Begin with a rank that was just heard."""
        self._ranks[key] = probed = _Probed(now + self._intervals.idle)
        heapq.heappush(self._heap, (probed.due, key))

    def remove(self, key: str) -> None:
        """End with a rank; an unknown one is no error."""
        self._ranks.pop(key, None)

    def heard(self, key: str, now: float) -> None:
        """Note that a rank has sent something."""
        probed = self._ranks.get(key)
        if probed is None:
            return
        probed.unanswered = 0
        if probed.silent:
            probed.silent = False
            self._schedule(key, probed, now + self._interval(probed))

    def attend(self, key: str, attended: bool, now: float) -> None:
        """Note whether a terminal looks at a rank; a rank that was not looked at before is probed at the next sweep."""
        probed = self._ranks.get(key)
        if probed is None or probed.attended == attended:
            return
        probed.attended = attended
        if attended and not probed.silent:
            self._schedule(key, probed, now)

    def due(self, now: float) -> Due:
        """Return what is to be done by now; the next probe of each rank is scheduled."""
        due = Due([], [])
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            probed = self._ranks.get(key)
            # A rank that was scheduled or registered anew has another entry.
            if probed is None or probed.due != at or probed.silent:
                continue
            if probed.unanswered >= limits.SILENT_PROBES:
                probed.silent = True
                due.silent.append(key)
                continue
            probed.unanswered += 1
            due.probe.append(key)
            self._schedule(key, probed, now + self._interval(probed))
        return due

    def _interval(self, probed: _Probed) -> float:
        return self._intervals.attended if probed.attended else self._intervals.idle

    def _schedule(self, key: str, probed: _Probed, due: float) -> None:
        probed.due = due
        heapq.heappush(self._heap, (due, key))
