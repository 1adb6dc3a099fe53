"""What the kernel counts of this process and of its main thread: two readings tell what it lacked in between."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TypeVar

from dbg_agent.host.proc import CGROUPS, TICKS, fields_of, group_folders, number_in, read_proc, stat_of, word_at
from dbg_agent.host.process import kernel_thread, thread_time
from dbg_wire.records.record import fitted
from dbg_wire.records.samples import CoreSpeed, DiskUse, ProcessorUse

_FAULTS, _PROCESSOR, _DISK = 9, 36, 39
"""Where major faults, the last processor and delays by disks stand in a stat file, counted from the state on."""

_CPU_FILES = ("cpu.stat",)


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
    pressure: float | None = None
    heated: int | None = None
    throttles: tuple[tuple[int, int], ...] = ()


class Kernel:
    """Reads the counters of this process below ``proc``, and its control groups and processors below ``sys``."""

    def __init__(self, proc: str = "/proc", cgroups: str = CGROUPS, sys: str = "/sys") -> None:
        self._proc, self._sys = proc, sys
        self._folders = group_folders(read_proc(f"{proc}/self/cgroup"), cgroups, "cpu", _CPU_FILES)
        self._main = kernel_thread(threading.main_thread().native_id, is_main=True)

    def read(self) -> Reading:
        """Return the counters as they are now; it never raises."""
        words = stat_of(f"self/task/{self._main}", self._proc)[1]
        processor = word_at(words, _PROCESSOR)
        disk = word_at(words, _DISK)
        return Reading(
            at=time.monotonic(),
            main_cpu=thread_time(threading.main_thread().ident),
            queued=self.queued(),
            faults=word_at(stat_of("self", self._proc)[1], _FAULTS),
            disk=disk / TICKS if disk is not None and self._counts_delays() else None,
            pressure=self._pressure(),
            heated=self._heated(processor),
            throttles=tuple(_throttle(folder) for folder in self._folders),
        )

    def queued(self) -> float | None:
        """Return the seconds for which the main thread could have run and had no core."""
        words = read_proc(f"{self._proc}/self/task/{self._main}/schedstat").split()
        waited = number_in(words[1]) if len(words) == 3 else None
        return waited / 1e9 if waited is not None else None

    def swapped(self) -> int | None:
        """Return the bytes of the process that are in swap."""
        told = number_in(fields_of(f"{self._proc}/self/status").get("VmSwap", "").removesuffix("kB"))
        return told * 1024 if told is not None else None

    def quota(self) -> float | None:
        """Return the cores that the narrowest control group allows, None for no limit."""
        found = [_quota(folder) for folder in self._folders]
        return min((cores for cores in found if cores is not None), default=None)

    def speed(self, before: Reading, after: Reading) -> CoreSpeed:
        """Return how fast the main thread's core is now, and how often heat has slowed it down between two readings."""
        processor = word_at(stat_of(f"self/task/{self._main}", self._proc)[1], _PROCESSOR)
        folder = f"{self._sys}/devices/system/cpu/cpu{processor}/cpufreq"
        told = [number_in(read_proc(f"{folder}/{name}")) for name in ("scaling_cur_freq", "cpuinfo_max_freq")]
        now, fastest = (1000 * kilohertz if kilohertz is not None else None for kilohertz in told)
        return fitted(CoreSpeed, frequency=now, fastest=fastest, heated=_more(before.heated, after.heated))

    def _counts_delays(self) -> bool:
        # Without it the word in the stat file stays 0, which would say that no disk was waited for.
        return number_in(read_proc(f"{self._proc}/sys/kernel/task_delayacct")) == 1

    def _pressure(self) -> float | None:
        """Return the seconds in which any process of the control group, or else of the host, waited for a disk."""
        for path in (*(f"{folder}/io.pressure" for folder in self._folders[:1]), f"{self._proc}/pressure/io"):
            line = read_proc(path).partition("\n")[0]
            total = number_in(line.rpartition("total=")[2]) if line.startswith("some ") else None
            if total is not None:
                return total / 1e6
        return None

    def _heated(self, processor: int | None) -> int | None:
        folder = f"{self._sys}/devices/system/cpu/cpu{processor}/thermal_throttle"
        return number_in(read_proc(f"{folder}/core_throttle_count"))


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


def disks(before: Reading, after: Reading, swapped: int | None) -> DiskUse:
    """Return what was waited for of disks between two readings."""
    return fitted(
        DiskUse,
        faults=_more(before.faults, after.faults),
        swapped=swapped,
        waits=_more(before.disk, after.disk),
        pressure=_more(before.pressure, after.pressure),
    )


_N = TypeVar("_N", int, float)


def _more(before: _N | None, after: _N | None) -> _N | None:
    # A counter that has gone back is another one: the main thread has moved to another core.
    return after - before if before is not None and after is not None and after >= before else None


def _throttle(folder: str) -> tuple[int, int]:
    told = fields_of(f"{folder}/cpu.stat", " ")
    return number_in(told.get("nr_throttled", "")) or 0, number_in(told.get("nr_periods", "")) or 0


def _quota(folder: str) -> float | None:
    words = read_proc(f"{folder}/cpu.max").split()
    if len(words) != 2:
        words = [read_proc(f"{folder}/{name}").strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    quota, period = (number_in(word) for word in words)
    return quota / period if quota and period else None


def busy_processes(seconds: float, proc: str = "/proc") -> dict[int, tuple[str, float]]:
    """Return the processes that were last on a core of ours: their names and the processor time that they have used.

    As many as can be read in so many seconds; other processes of a container may be out of sight.
    """
    own, end = os.getpid(), time.thread_time() + seconds
    cores = os.sched_getaffinity(0)
    found: dict[int, tuple[str, float]] = {}
    try:
        names = os.listdir(proc)  # noqa: PTH208 - no pathlib in a rank
    except OSError:
        return found
    # The newest ones first: what takes a core away has hardly been there since the host was started.
    for pid in sorted((int(name) for name in names if name.isascii() and name.isdecimal()), reverse=True):
        if time.thread_time() > end:
            break
        name, words = stat_of(pid, proc)
        used, core = [word_at(words, place) for place in (11, 12)], word_at(words, _PROCESSOR)
        if pid != own and core in cores and used[0] is not None and used[1] is not None:
            found[pid] = name, (used[0] + used[1]) / TICKS
    return found
