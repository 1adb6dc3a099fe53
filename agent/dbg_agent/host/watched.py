"""The rank's process as its guard sees it, and what a guard's script shares with its report.

This module imports only what a bare interpreter has loaded anyway, and ``proc``, which does the same.
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
"""Seconds within which a process ends after its pipe. A rank that lives longer has only let go of its guard."""

GRACE_SECONDS = 1.0
"""Seconds that a beat may be late: a rank that goes on after a suspension sends a beat at once."""

LOOK_SECONDS = 30.0
"""Seconds between two checks that the rank lives, on kernels before 5.3, which have no descriptors of processes."""

SIGNAL = 0x7F
"""Bits of a status that hold the signal which ended the process."""

GET_INFO = 0xC040FF0B
"""The ioctl PIDFD_GET_INFO for the first release of its structure, of 64 bytes."""

INFO_EXIT = 1 << 3

INFO_EXIT_CODE = 60
"""PIDFD_INFO_EXIT, known to kernels since 6.15, and the offset of the exit code in the structure."""

SLURM_LATE_SECONDS = 180.0
"""Seconds after a time limit of SLURM within which it explains an end: SLURM looks for such jobs now and then."""


class Memory:
    """The memory of one process: ``held`` are its bytes at the last note, ``noted`` when that was, on monotonic time.

    ``kills`` is how often the kernel had ended a process of the control group for want of memory at the note before
    the last, None if it doesn't tell: the last note may be of a process that is being ended.
    """

    def __init__(self, pid: int, root: str = CGROUPS, proc: str = "/proc") -> None:
        """Find the control group of a process; ``root`` and ``proc`` are where the kernel shows them."""
        self._statm = f"{proc}/{pid}/statm"
        self._group = MemoryGroup(pid, root, proc)
        self.held, self.noted = 0, time.monotonic()
        self.kills = self._latest = self._group.kills()
        self.note()

    def limit(self) -> int | None:
        """Return the bytes that the group may hold, None if only the host's memory bounds it."""
        return self._group.limit()

    def note(self) -> None:
        """Read what the process holds now, and how often its group has run out so far."""
        words = read_proc(self._statm).split()
        if len(words) > 1 and words[1] != "0":
            self.held, self.noted = int(words[1]) * PAGE_BYTES, time.monotonic()
            self.kills, self._latest = self._latest, self._group.kills()

    def told(self) -> tuple[str, str]:
        """Return that the kernel has ended the process for want of memory; and what it held, if that is known."""
        limit = self.limit()
        whose = "the host ran out" if limit is None else f"limit of its cgroup {limit / GIB:.1f} GiB"
        ago = time.monotonic() - self.noted
        held = f"it held {self.held / GIB:.1f} GiB {ago:.1f} s before" if self.held else ""
        return f"from the kernel's out-of-memory killer ({whose})", held

    def has_run_out(self) -> bool:
        """Tell whether the kernel has lately ended a process of the group for want of memory."""
        now = self._group.kills()
        return now is not None and self.kills is not None and now > self.kills


class WatchedProcess:
    """A process that is not our child; ``memory`` is what it holds."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.memory = Memory(pid)
        try:
            self.descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.descriptor = -1

    def is_alive(self, seconds: float = 0.0) -> bool:
        """Wait until the process has ended, for ``seconds`` at most, and tell whether it still lives."""
        if self.descriptor >= 0:
            return not select.select([self.descriptor], [], [], seconds)[0]
        if seconds:
            select.select([], [], [], seconds)
        return stat_of(self.pid)[1][:1] not in ([], ["Z"], ["X"])

    def is_suspended(self) -> bool:
        """Tell whether a signal or a tracer has stopped the process."""
        return stat_of(self.pid)[1][:1] in (["T"], ["t"])

    def status(self) -> int | None:
        """Return the status with which the process ended, as ``waitpid`` would; None if the kernel doesn't tell."""
        words = stat_of(self.pid)[1]
        if words[:1] == ["Z"] and len(words) > 49:
            return int(words[49])
        return self._status_of_reaped()

    def has_ended_unheard(self, *, is_calm: bool) -> bool:
        """Tell whether the ended process can't have said how: by a signal, or by itself though it was not ``is_calm``.

        A process that ends as usual is calm before it says goodbye.
        """
        status = self.status()
        return status is not None and (status & SIGNAL != 0 or not is_calm)

    def cause_of_end(self, number: int, slurm_end: str) -> tuple[str, str]:
        """Return who has sent the signal that ended the process, as the end of a sentence, and what else is known.

        Both are empty if it isn't known.

        ``slurm_end`` is when the time of its job of SLURM is up, in seconds of the day's clock.
        """
        import signal

        if number == signal.SIGKILL and self.memory.has_run_out():
            return self.memory.told()
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
    """Share only the pipe with the rank: no session, no signals, no other descriptors."""
    import signal

    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # These signals are meant for the job. The guard reports how the rank ends, and then ends by itself.
        signal.signal(number, signal.SIG_IGN)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                # This descriptor listed the folder, and is closed already.
                continue


def leave_parent() -> None:
    """Go on in a child process and end this one, so that process 1 becomes the parent instead of the rank."""
    if os.fork():
        os._exit(0)
