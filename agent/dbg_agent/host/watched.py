"""The rank's process as its guard sees it, and other code that the guard's script and its reports share.

This module imports only ``proc`` and modules that a bare interpreter has loaded anyway.
"""

from __future__ import annotations

import os
import select
import sys
import time

from dbg_agent.host.proc import CGROUPS, MemoryGroup, read_proc, stat_of

PAGE_BYTES = os.sysconf("SC_PAGESIZE")

GIB = 1 << 30

PIPE = 0

LINGER_SECONDS = 2.0
"""Maximum time, in seconds, that an ending process lives after its pipe is closed. A rank that lives longer is not
ending: it has closed the pipe because it needs no guard any more."""

GRACE_SECONDS = 1.0
"""Seconds that are added to the time after which a beat is overdue. They suffice after the host was suspended, because
a rank that continues sends a beat at once."""

CHECK_SECONDS = 30.0
"""Seconds between two checks that the rank lives, on kernels before 5.3, which have no pidfd."""

SIGNAL = 0x7F
"""Bits of an exit status that hold the signal that ended the process."""

GET_INFO = 0xC040FF0B
"""The ioctl PIDFD_GET_INFO with the first version of its structure, which has 64 bytes."""

INFO_EXIT = 1 << 3

INFO_EXIT_CODE = 60
"""Offset of the exit code in the structure of PIDFD_GET_INFO. ``INFO_EXIT`` is PIDFD_INFO_EXIT, known from Linux 6.15
on."""

SLURM_LATE_SECONDS = 180.0
"""Maximum time, in seconds, from the time limit of a SLURM job to a signal that is attributed to this limit. It is
long, because SLURM rarely checks the limits."""


class Memory:
    """The memory of one process.

    ``held`` is its size in bytes at the most recent reading, ``noted`` the monotonic time of this reading. ``kills`` is
    how many processes of the control group the kernel has killed for lack of memory; None if unknown. This number is
    from the reading before the most recent one, because the most recent number may already include this process.
    """

    def __init__(self, pid: int, root: str = CGROUPS, proc: str = "/proc") -> None:
        """Find the process's group; ``root`` and ``proc`` are the mount points of control groups and of /proc."""
        self._statm = f"{proc}/{pid}/statm"
        self._group = MemoryGroup(pid, root, proc)
        self.held, self.noted = 0, time.monotonic()
        self.kills = self._latest = self._group.kills()
        self.note()

    def limit(self) -> int | None:
        """Return the memory limit of the group in bytes, or None if only the host's memory limits it."""
        return self._group.limit()

    def note(self) -> None:
        """Read the memory of the process, and the number of kills in its group."""
        fields = read_proc(self._statm).split()
        if len(fields) > 1 and fields[1] != "0":
            self.held, self.noted = int(fields[1]) * PAGE_BYTES, time.monotonic()
            self.kills, self._latest = self._latest, self._group.kills()

    def reading(self) -> tuple[str, str]:
        """Return two parts of a sentence about a kill for lack of memory: the sender, and the memory if known."""
        limit = self.limit()
        whose = "the host ran out of memory" if limit is None else f"limit of its cgroup {limit / GIB:.1f} GiB"
        ago = time.monotonic() - self.noted
        held = f"it held {self.held / GIB:.1f} GiB {ago:.1f} s before" if self.held else ""
        return f"from the kernel's out-of-memory killer ({whose})", held

    def has_run_out(self) -> bool:
        """Return True if the kernel has recently killed a process of the group for lack of memory."""
        now = self._group.kills()
        return now is not None and self.kills is not None and now > self.kills


class WatchedProcess:
    """A process that is not a child of the guard; ``memory`` is its memory."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.memory = Memory(pid)
        try:
            self.descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.descriptor = -1

    def is_alive(self, seconds: float = 0.0) -> bool:
        """Wait up to ``seconds`` for the process to end. Return True if it still lives."""
        if self.descriptor >= 0:
            return not select.select([self.descriptor], [], [], seconds)[0]
        if seconds:
            select.select([], [], [], seconds)
        return stat_of(self.pid)[1][:1] not in ([], ["Z"], ["X"])

    def is_suspended(self) -> bool:
        """Return True if a signal or a tracer has stopped the process."""
        return stat_of(self.pid)[1][:1] in (["T"], ["t"])

    def status(self) -> int | None:
        """Return the exit status as ``waitpid`` would, or None if the kernel doesn't report it."""
        fields = stat_of(self.pid)[1]
        if fields[:1] == ["Z"] and len(fields) > 49:
            return int(fields[49])
        return self._status_of_reaped()

    def has_ended_unheard(self, *, is_calm: bool) -> bool:
        """Return True if the process ended without reporting it: by a signal, or while it was not ``is_calm``.

        A calm process has announced its end to the guard. At a normal exit it does so before its goodbye to the broker.
        """
        status = self.status()
        return status is not None and (status & SIGNAL != 0 or not is_calm)

    def cause_of_end(self, number: int, slurm_end: str) -> tuple[str, str]:
        """Return the sender of the signal that ended the process, as the end of a sentence, and further details.

        Both are empty if the sender is unknown. ``slurm_end`` is the time limit of the SLURM job, in seconds since the
        epoch.
        """
        import signal

        if number == signal.SIGKILL and self.memory.has_run_out():
            return self.memory.reading()
        late = time.time() - int(slurm_end) if slurm_end.isdecimal() else -1.0
        if number in (signal.SIGTERM, signal.SIGKILL) and 0 <= late <= SLURM_LATE_SECONDS:
            up = time.strftime("%H:%M:%S", time.localtime(int(slurm_end)))
            return f"from SLURM: the time limit of the job was {up}", ""
        return "", ""

    def _status_of_reaped(self) -> int | None:
        if self.descriptor < 0:
            return None
        import fcntl

        info = bytearray(64)
        info[0] = INFO_EXIT
        try:
            fcntl.ioctl(self.descriptor, GET_INFO, info)
        except OSError:
            return None
        known = int.from_bytes(info[:8], sys.byteorder) & INFO_EXIT
        return int.from_bytes(info[INFO_EXIT_CODE:], sys.byteorder) if known else None


def leave_rank() -> None:
    """Detach from the rank, except for the pipe: use a new session, ignore signals, close other descriptors."""
    import signal

    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # These signals are for the job. The guard reports how the rank ends, and then exits by itself.
        signal.signal(number, signal.SIG_IGN)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                # The directory listing contains its own descriptor, which is already closed.
                continue


def leave_parent() -> None:
    """Continue in a child process and end this one, so that the parent is process 1 and no longer the rank."""
    if os.fork():
        os._exit(0)
