"""Heartbeat: when ranks are probed, and the processes of lost ranks looked for. Pure: time is an argument.

One heap holds all ranks that are probed, so that the cost of a sweep depends on those that are due. A host that has
vanished answers no probe: a rank of it is unresponsive within 6 s if somebody looks at it or asks it, and within 60 s
otherwise. Its kernel answers nothing either, and by that the connection ends after CONNECTION_DEAD_SECONDS.
"""

from __future__ import annotations

import heapq
import os
from dataclasses import dataclass
from pathlib import Path

from dbg_wire import limits

DEATH_CHECKS = (0.2, 1.0, 5.0)
"""Seconds after which a lost rank of this host is looked for again: its socket closes before it is a dead process."""

DEATH_CHECK_LATER = 30.0
"""Seconds between later checks: the rank may have lost only its connection, and end at any time."""


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

    A silent rank is not probed again: it answers the waiting probes when it goes on, and more would only pile up.
    """

    def __init__(self, intervals: ProbeIntervals) -> None:
        self._intervals = intervals
        self._ranks: dict[str, _Probed] = {}
        self._heap: list[tuple[float, str]] = []

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


_PROC = Path("/proc")


def is_dead(pid: int, proc: Path = _PROC) -> bool:
    """Tell whether no process has this id any more, or only its exit status is left of it."""
    try:
        status = (proc / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        # A /proc with hidepid, as systemd's ProtectProc= mounts it, has no processes of other users.
        return not _is_there(pid)
    except OSError:
        return False
    # The name in parentheses may hold anything, parentheses too; the state is the first word after it.
    return status.rpartition(b")")[2].split()[:1] in ([b"Z"], [b"X"], [b"x"])


def _is_there(pid: int) -> bool:
    """Tell whether a process has this id, which signal 0 finds out without being one."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


class DeathChecks:
    """The keys of lost ranks, by when each is to be looked for next."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str, int]] = []

    def put(self, key: str, attempt: int, now: float) -> None:
        """Have a rank looked for again after the attempt of this number, counted from zero."""
        delay = DEATH_CHECKS[attempt] if attempt < len(DEATH_CHECKS) else DEATH_CHECK_LATER
        heapq.heappush(self._heap, (now + delay, key, attempt + 1))

    def due(self, now: float) -> list[tuple[str, int]]:
        """Take out the ranks that are to be looked for by now, each with the number of its attempt."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            _, key, attempt = heapq.heappop(self._heap)
            found.append((key, attempt))
        return found
