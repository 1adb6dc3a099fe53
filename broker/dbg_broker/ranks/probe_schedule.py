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
    """A rank's schedule; ``due`` may lie behind ``entry``, its place in the heap, and is looked at again then."""

    idle_due: float
    due: float
    entry: float
    unanswered: int = 0
    attended: bool = False
    asked: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """The ranks to probe now, and those that have left their probes unanswered."""

    probe: list[str]
    silent: list[str]


class ProbeSchedule:
    """For each connected rank, when its next probe is due and how many wait for an answer.

    The length is the number of entries that wait for their time; some are out of date.
    A silent rank is not probed again: it answers the waiting probes when it goes on, and more would only pile up.
    """

    def __init__(self, intervals: ProbeIntervals) -> None:
        self._intervals = intervals
        self._ranks: dict[str, _Probed] = {}
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, key: str, now: float) -> None:
        """Begin with a rank that was just heard."""
        due = now + self._intervals.idle
        self._ranks[key] = _Probed(idle_due=due, due=due, entry=due)
        heapq.heappush(self._heap, (due, key))

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
            self._was_probed(key, probed, now)

    def attend(self, key: str, attended: bool, now: float) -> None:
        """Note whether a terminal looks at a rank; a rank that was not looked at before is probed at the next sweep."""
        probed = self._ranks.get(key)
        if probed is None or probed.attended == attended:
            return
        probed.attended = attended
        if attended:
            self._schedule(key, probed, now)

    def asked(self, key: str, now: float) -> None:
        """Note that a rank is asked something: that counts as a probe, and a next one follows if no answer comes."""
        probed = self._ranks.get(key)
        if probed is None or probed.asked:
            return
        probed.asked = True
        # Questions without an end must not put off the probe that is due.
        if not probed.attended and now < probed.idle_due:
            probed.unanswered = max(probed.unanswered, 1)
            self._schedule(key, probed, now + self._intervals.attended)

    def ask_ended(self, key: str) -> None:
        """Note that nothing that a rank was asked is open any more."""
        probed = self._ranks.get(key)
        if probed is not None and probed.asked:
            probed.asked = False
            if not probed.attended:
                # Its entry in the heap, which may come earlier, is moved on when it comes.
                probed.due = probed.idle_due

    def due(self, now: float) -> Due:
        """Return what is to be done by now; the next probe of each rank is scheduled."""
        due = Due([], [])
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            probed = self._ranks.get(key)
            # A rank that was scheduled or registered anew has another entry.
            if probed is None or probed.entry != at or probed.silent:
                continue
            if probed.due > now:
                probed.entry = probed.due
                heapq.heappush(self._heap, (probed.entry, key))
                continue
            if probed.unanswered >= limits.SILENT_PROBES:
                probed.silent = True
                due.silent.append(key)
                continue
            probed.unanswered += 1
            due.probe.append(key)
            self._was_probed(key, probed, now)
        return due

    def _was_probed(self, key: str, probed: _Probed, now: float) -> None:
        probed.idle_due = now + self._intervals.idle
        is_frequent = probed.attended or probed.asked
        probed.due = probed.entry = now + self._intervals.attended if is_frequent else probed.idle_due
        heapq.heappush(self._heap, (probed.entry, key))

    def _schedule(self, key: str, probed: _Probed, due: float) -> None:
        """Have a rank probed at another time; one that is silent is not."""
        probed.due = due
        if due < probed.entry and not probed.silent:
            probed.entry = due
            heapq.heappush(self._heap, (due, key))
