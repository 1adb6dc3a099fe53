"""Heartbeat: schedules the probes of ranks and the checks whether processes of lost ranks still exist.

Pure: time is an argument. One heap holds all probed ranks, so the cost of a sweep depends only on the ranks that are
due. If a host has vanished, its ranks answer no probe. Such a rank becomes unresponsive within 6 s if a terminal views
it or asks it, and within 60 s otherwise. The host's kernel does not answer either, so the connection ends after
CONNECTION_DEAD_SECONDS.
"""

from __future__ import annotations

import heapq
import os
from dataclasses import dataclass
from pathlib import Path

from dbg_wire import limits

DEATH_CHECKS = (0.2, 1.0, 5.0)
"""Delays between the first checks whether a lost rank's process on this host is dead, in seconds. A process that ends
closes its socket a little before it is dead.
"""

DEATH_CHECK_LATER = 30.0
"""Delay between later checks, in seconds. The process of a lost rank may still run without a connection, and end at any
time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeIntervals:
    """Intervals between two probes, in seconds, of a rank that a terminal views and of any other rank."""

    attended: float = limits.PROBE_ATTENDED_SECONDS
    idle: float = limits.PROBE_IDLE_SECONDS


@dataclass(slots=True)
class _Probed:
    """Schedule of one rank; ``entry`` is its time in the heap, and ``due`` the time of its next probe.

    If ``due`` is later than ``entry``, the rank is put back into the heap when ``entry`` is reached.
    """

    idle_due: float
    due: float
    entry: float
    unanswered: int = 0
    attended: bool = False
    asked: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """Ranks to probe now, and ranks that left their probes unanswered."""

    probe: list[str]
    silent: list[str]


class ProbeSchedule:
    """For each connected rank, the time of its next probe and the number of unanswered probes.

    A silent rank is not probed again: it will answer the waiting probes when it resumes, and more probes would only
    pile up.
    """

    def __init__(self, intervals: ProbeIntervals) -> None:
        self._intervals = intervals
        self._ranks: dict[str, _Probed] = {}
        self._heap: list[tuple[float, str]] = []

    def add(self, key: str, now: float) -> None:
        """Add a rank that has just sent something."""
        due = now + self._intervals.idle
        self._ranks[key] = _Probed(idle_due=due, due=due, entry=due)
        heapq.heappush(self._heap, (due, key))

    def remove(self, key: str) -> None:
        """Remove a rank. Ignore an unknown key."""
        self._ranks.pop(key, None)

    def heard(self, key: str, now: float) -> None:
        """Record that a rank sent something."""
        probed = self._ranks.get(key)
        if probed is None:
            return
        probed.unanswered = 0
        if probed.silent:
            probed.silent = False
            self._was_probed(key, probed, now)

    def attend(self, key: str, attended: bool, now: float) -> None:
        """Record whether a terminal views a rank. A rank that was not viewed before is probed at the next sweep."""
        probed = self._ranks.get(key)
        if probed is None or probed.attended == attended:
            return
        probed.attended = attended
        if attended:
            self._schedule(key, probed, now)

    def asked(self, key: str, now: float) -> None:
        """Record that a rank is asked something. This counts as a probe; if no answer arrives, a probe follows soon."""
        probed = self._ranks.get(key)
        if probed is None or probed.asked:
            return
        probed.asked = True
        # A long series of questions must not delay the probe that is due.
        if not probed.attended and now < probed.idle_due:
            probed.unanswered = max(probed.unanswered, 1)
            self._schedule(key, probed, now + self._intervals.attended)

    def ask_ended(self, key: str) -> None:
        """Record that a rank has no open question any more."""
        probed = self._ranks.get(key)
        if probed is not None and probed.asked:
            probed.asked = False
            if not probed.attended:
                # The rank's entry in the heap may be for an earlier time. When the entry is popped, it is moved to this
                # time.
                probed.due = probed.idle_due

    def due(self, now: float) -> Due:
        """Return the ranks that need an action now, and schedule the next probe of each rank that is probed."""
        due = Due([], [])
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            probed = self._ranks.get(key)
            # Skip an outdated entry: a rank that was rescheduled or registered again has a newer one.
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
        """Set another time for the next probe of a rank; a silent rank is not probed."""
        probed.due = due
        if due < probed.entry and not probed.silent:
            probed.entry = due
            heapq.heappush(self._heap, (due, key))


_PROC = Path("/proc")


def is_dead(pid: int, proc: Path = _PROC) -> bool:
    """Return True if no process has this id any more, or the process is a zombie."""
    try:
        status = (proc / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        # The process may still exist: a /proc that is mounted with hidepid, as for systemd's ProtectProc=, hides the
        # processes of other users.
        return not _is_there(pid)
    except OSError:
        return False
    # The name in parentheses may contain anything, even parentheses; the state is the first word after it.
    return status.rpartition(b")")[2].split()[:1] in ([b"Z"], [b"X"], [b"x"])


def _is_there(pid: int) -> bool:
    """Return True if a process has this id. Signal 0 checks this without an effect on the process."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


class DeathChecks:
    """Keys of lost ranks, ordered by the time of their next check."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str, int]] = []

    def put(self, key: str, attempt: int, now: float) -> None:
        """Schedule the next check of a rank; ``attempt`` is the number of checks that were scheduled before."""
        delay = DEATH_CHECKS[attempt] if attempt < len(DEATH_CHECKS) else DEATH_CHECK_LATER
        heapq.heappush(self._heap, (now + delay, key, attempt + 1))

    def due(self, now: float) -> list[tuple[str, int]]:
        """Remove and return the ranks whose check is due, each with the number of checks scheduled so far."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            _, key, attempt = heapq.heappop(self._heap)
            found.append((key, attempt))
        return found
