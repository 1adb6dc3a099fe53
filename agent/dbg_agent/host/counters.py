"""What the kernel counts of this process and of its main thread: two readings tell what it lacked in between."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TypeVar

from dbg_agent.host.proc import CGROUPS, TICKS, fields_of, group_folders, number_in, read_proc, stat_of, word_at
from dbg_agent.host.process import kernel_thread, thread_time
from dbg_wire.records.record import fitted
from dbg_wire.records.samples import DiskUse, ProcessorUse

_FAULTS, _DISK = 9, 39
"""Where major faults and delays by disks stand in a stat file, counted from the state on."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The counters at one moment, None where the kernel does not tell; seconds, but for counts.

    ``throttles`` are the used up and all periods of each control group around the process.
    """

    at: float
    main_cpu: float | None = None
    queued: float | None = None
    faults: int | None = None
    disk: float | None = None
    throttles: tuple[tuple[int, int], ...] = ()


class Kernel:
    """Reads the counters of this process below ``proc``, and its control groups."""

    def __init__(self, proc: str = "/proc", cgroups: str = CGROUPS) -> None:
        self._proc = proc
        self._folders = group_folders(read_proc(f"{proc}/self/cgroup"), cgroups, "cpu", ("cpu.stat",))
        self._main = kernel_thread(threading.main_thread().native_id, is_main=True)

    def read(self) -> Reading:
        """Return the counters as they are now; it never raises."""
        waited = read_proc(f"{self._proc}/self/task/{self._main}/schedstat").split()
        queued = number_in(waited[1]) if len(waited) == 3 else None
        disk = word_at(stat_of(f"self/task/{self._main}", self._proc)[1], _DISK)
        return Reading(
            at=time.monotonic(),
            main_cpu=thread_time(threading.main_thread().ident),
            queued=queued / 1e9 if queued is not None else None,
            faults=word_at(stat_of("self", self._proc)[1], _FAULTS),
            disk=disk / TICKS if disk is not None and self._counts_delays() else None,
            throttles=tuple(_throttle(folder) for folder in self._folders),
        )

    def quota(self) -> float | None:
        """Return the cores that the narrowest control group allows, None for no limit."""
        found = [_quota(folder) for folder in self._folders]
        return min((cores for cores in found if cores is not None), default=None)

    def _counts_delays(self) -> bool:
        # Without it the word in the stat file stays 0, which would say that no disk was waited for.
        return number_in(read_proc(f"{self._proc}/sys/kernel/task_delayacct")) == 1


def processors(before: Reading, after: Reading, quota: float | None) -> ProcessorUse:
    """Return what the main thread got of processors between two readings."""
    throttled, periods = max(
        (
            (used - used_before, passed - passed_before)
            for (used_before, passed_before), (used, passed) in zip(before.throttles, after.throttles, strict=True)
        ),
        default=(None, None),
    )
    return fitted(
        ProcessorUse,
        main=_more(before.main_cpu, after.main_cpu),
        queued=_more(before.queued, after.queued),
        periods=periods,
        throttled=throttled,
        quota=quota,
    )


def disks(before: Reading, after: Reading) -> DiskUse:
    """Return what was waited for of disks between two readings."""
    return fitted(DiskUse, faults=_more(before.faults, after.faults), waits=_more(before.disk, after.disk))


_N = TypeVar("_N", int, float)


def _more(before: _N | None, after: _N | None) -> _N | None:
    return after - before if before is not None and after is not None and after >= before else None


def _throttle(folder: str) -> tuple[int, int]:
    told = fields_of(f"{folder}/cpu.stat", " ")
    return number_in(told.get("nr_throttled", "")) or 0, number_in(told.get("nr_periods", "")) or 0


def _quota(folder: str) -> float | None:
    words = read_proc(f"{folder}/cpu.max").split()
    if len(words) != 2:
        words = [read_proc(f"{folder}/cpu.{name}").strip() for name in ("cfs_quota_us", "cfs_period_us")]
    quota, period = (number_in(word) for word in words)
    return quota / period if quota and period else None
