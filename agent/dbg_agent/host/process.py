"""Process of the rank and its threads as the kernel sees them: counters, limits, system calls, and resource shortages.

The difference between two readings of the counters shows the shortages in the time between them.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

from dbg_agent.host.proc import (
    CGROUPS,
    TICKS,
    MemoryGroup,
    fields_of,
    group_folders,
    number_in,
    read_proc,
    stat_of,
    word_at,
)
from dbg_agent.process.threads import own_traffic
from dbg_wire.libraries import call_names
from dbg_wire.records.evidence import NamedProcess, ProcessSeen, Relation
from dbg_wire.records.record import clamp
from dbg_wire.records.samples import ProcessorUse

MAX_POLLED = 8
"""Maximum number of descriptors of one poll() that are read."""

_MAX_PATH = 4096

MAX_COMMAND = 60
"""Maximum number of characters of a command line."""


class SystemCall(NamedTuple):
    """A system call with its six arguments; ``name`` contains the call's number if the table lacks the call.

    ``process`` is the directory in /proc of the calling process.
    """

    name: str
    arguments: tuple[int, ...]
    process: str = "self"


_NAMES = call_names(os.uname().machine)


def system_call(thread: int, process: str = "self") -> SystemCall | None:
    """Return the system call that a thread is in, or None if the thread runs or the kernel does not report the call.

    ``thread`` is the thread's id in the kernel.
    """
    fields = read_proc(f"/proc/{process}/task/{thread}/syscall").split()
    try:
        # The number is -1 if the thread is blocked outside a system call.
        if len(fields) < 7 or int(fields[0]) < 0:
            return None
        number = int(fields[0])
        return SystemCall(
            _NAMES.get(number, f"number {number}"), tuple(int(field, 16) for field in fields[1:7]), process
        )
    except ValueError:
        return None


def kernel_thread(native: object, *, is_main: bool) -> int | None:
    """Return a thread's id in the kernel, or None if it is unknown; ``native`` is the id kept by :mod:`threading`.

    In a forked process, the id kept for the main thread is still the parent's, so it is only used if it exists here.
    """
    if type(native) is int and os.path.exists(f"/proc/self/task/{native}"):  # noqa: PTH110 - no pathlib in a rank
        return native
    return os.getpid() if is_main else None


def path_of(call: SystemCall) -> str:
    """Return the path argument of a system call; empty if it has none or the path can't be read."""
    if call.name in ("open", "stat", "lstat", "access", "mkdir", "rmdir", "unlink", "readlink", "statfs", "chdir"):
        address = call.arguments[0]
    elif call.name in ("openat", "openat2", "newfstatat", "statx", "faccessat", "faccessat2", "unlinkat", "readlinkat"):
        address = call.arguments[1]
    else:
        return ""
    return os.fsdecode(_memory(call, address, _MAX_PATH).partition(b"\0")[0])


def polled(call: SystemCall) -> list[int]:
    """Return the descriptors that a poll() waits for, at most MAX_POLLED."""
    count = min(call.arguments[1], MAX_POLLED)
    raw = _memory(call, call.arguments[0], 8 * count)
    return [descriptor for descriptor, _, _ in struct.iter_unpack("=ihh", raw[: len(raw) // 8 * 8]) if descriptor >= 0]


def peer_of(call: SystemCall) -> str:
    """Return the address that a connect() connects to; empty if it can't be read."""
    import socket

    raw = _memory(call, call.arguments[1], min(call.arguments[2], 128))
    if len(raw) < 8:
        return ""
    family = int.from_bytes(raw[:2], "little")
    port = int.from_bytes(raw[2:4], "big")
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(family, raw[4:8])}:{port}"
    if family == socket.AF_INET6 and len(raw) >= 24:
        return f"[{socket.inet_ntop(family, raw[8:24])}]:{port}"
    return os.fsdecode(raw[2:].rstrip(b"\0")) if family == socket.AF_UNIX else ""


def _memory(call: SystemCall, address: int, count: int) -> bytes:
    """Return up to ``count`` bytes of memory of the call's process; empty if the memory can't be read."""
    try:
        descriptor = os.open(f"/proc/{call.process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        # The kernel reads as much as it can. An unmapped address is an error of this call, and no fault of the process.
        return os.pread(descriptor, count, address)
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(descriptor)


def process_seen(pid: int | None = None) -> ProcessSeen:
    """Return the data of /proc about this process, or about ``pid``; fields without data stay empty.

    Any thread may call it. It never raises.
    """
    process = "self" if pid is None else str(pid)
    status, whole, ours = fields_of(f"/proc/{process}/status"), fields_of(f"/proc/{process}/io"), own_traffic()
    # Bytes that the agent's own threads transfer are not progress of the rank.
    read, written = (_without(whole.get(name, ""), ours[name] if pid is None else 0) for name in ("rchar", "wchar"))
    tracer = number_in(status.get("TracerPid", ""))
    return clamp(
        ProcessSeen,
        state=status.get("State", "")[:1],
        main_cpu=thread_time(threading.main_thread().ident) if pid is None else _main_cpu(pid),
        input=read,
        output=written,
        tracer=named(tracer) if tracer else None,
        killed=MemoryGroup(process).kills() or 0,
    )


def _without(text: str, ours: float) -> float | None:
    amount = number_in(text)
    return max(0, amount - ours) if amount is not None else None


def _main_cpu(pid: int) -> float | None:
    user, system = (word_at(stat_of(f"{pid}/task/{pid}")[1], place) for place in (11, 12))
    return (user + system) / TICKS if user is not None and system is not None else None


def thread_time(ident: int | None) -> float | None:
    """Return the CPU time of the main thread in seconds, or None if the kernel does not report it."""
    try:
        # Only the main thread is safe: it ends with the process, and the clock of an ended thread must not be used.
        return time.clock_gettime(time.pthread_getcpuclockid(ident or 0))
    except OSError:
        return None


def named(pid: int) -> NamedProcess:
    """Return the process, with its command line if it runs a different program than this process."""
    if pid == os.getpid():
        return NamedProcess(pid=pid, relation=Relation.ITSELF)
    if is_same_program(pid):
        return clamp(NamedProcess, pid=pid, relation=Relation.SAME_PROGRAM)
    program, _, rest = read_proc(f"/proc/{pid}/cmdline", 1000).rstrip("\0").partition("\0")
    text = f"{program.rpartition('/')[2]} {rest}".replace("\0", " ").strip()
    command = f"{text[:MAX_COMMAND]}…" if len(text) > MAX_COMMAND else text
    return clamp(NamedProcess, pid=pid, command=command, has_ended=has_ended(pid))


def is_same_program(pid: int) -> bool:
    """Return True if the process runs the same program as this process, as a fork or another rank does."""
    line = read_proc(f"/proc/{pid}/cmdline", 1000)
    return line != "" and line == read_proc("/proc/self/cmdline", 1000)


def has_ended(pid: int) -> bool:
    """Return True if the process has ended, even if its parent has not waited for it yet."""
    state = state_of(pid)
    return state in ("", "Z", "X")


def state_of(pid: int) -> str:
    """Return the letter of the process's state; empty if the process does not exist."""
    return next(iter(stat_of(pid)[1]), "")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The counters at one moment, with times in seconds; None for a counter that the kernel does not report.

    ``throttles`` has two numbers for each control group of the process: how many scheduling periods were throttled, and
    how many there were in all.
    """

    at: float
    queued: float | None = None
    throttles: tuple[tuple[int, int], ...] = ()


class Kernel:
    """Reader of counters of this process and its control groups, below the directories ``proc`` and ``cgroups``."""

    def __init__(self, proc: str = "/proc", cgroups: str = CGROUPS) -> None:
        self._proc = proc
        self._folders = group_folders(read_proc(f"{proc}/self/cgroup"), cgroups, "cpu", ("cpu.stat",))
        self._main = kernel_thread(threading.main_thread().native_id, is_main=True)

    def read(self) -> Reading:
        """Return the current counters; never raise."""
        waited = read_proc(f"{self._proc}/self/task/{self._main}/schedstat").split()
        queued = number_in(waited[1]) if len(waited) == 3 else None
        return Reading(
            at=time.monotonic(),
            queued=queued / 1e9 if queued is not None else None,
            throttles=tuple(_throttle(folder) for folder in self._folders),
        )

    def quota(self) -> float | None:
        """Return the number of cores that the smallest quota of the control groups allows, or None if unlimited."""
        found = [_quota(folder) for folder in self._folders]
        return min((cores for cores in found if cores is not None), default=None)


def processors(before: Reading, after: Reading, quota: float | None) -> ProcessorUse:
    """Return the processor use of the main thread between two readings."""
    throttled, periods = max(
        (
            (used - used_before, passed - passed_before)
            for (used_before, passed_before), (used, passed) in zip(before.throttles, after.throttles, strict=True)
        ),
        default=(None, None),
    )
    return clamp(
        ProcessorUse,
        queued=_more(before.queued, after.queued),
        periods=periods,
        throttled=throttled,
        quota=quota,
    )


def _more(before: float | None, after: float | None) -> float | None:
    return after - before if before is not None and after is not None and after >= before else None


def _throttle(folder: str) -> tuple[int, int]:
    facts = fields_of(f"{folder}/cpu.stat", " ")
    return number_in(facts.get("nr_throttled", "")) or 0, number_in(facts.get("nr_periods", "")) or 0


def _quota(folder: str) -> float | None:
    fields = read_proc(f"{folder}/cpu.max").split()
    if len(fields) != 2:
        fields = [read_proc(f"{folder}/cpu.{name}").strip() for name in ("cfs_quota_us", "cfs_period_us")]
    quota, period = (number_in(word) for word in fields)
    return quota / period if quota and period else None
