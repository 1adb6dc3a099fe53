"""A process that is no child of ours, as its guard sees it, and what a guard's script shares with its report.

Nothing is imported but what a bare interpreter has loaded anyway.
"""

from __future__ import annotations

import os
import select
import sys

PIPE = 0

LINGER_SECONDS = 2.0
"""Seconds between the end of the pipe and that of the process; after them the rank has only let go of its guard."""

GRACE_SECONDS = 1.0
"""Seconds that a beat may be later than it should: a rank that goes on after a suspension sends one at once."""

LOOK_SECONDS = 30.0
"""Seconds between two looks at whether the rank lives, on kernels before 5.3, which can't tell by themselves."""

SIGNAL = 0x7F
"""Bits of a status that hold the signal which ended the process."""

GET_INFO = 0xC040FF0B
"""The ioctl PIDFD_GET_INFO for the first release of its structure, of 64 bytes."""

INFO_EXIT = 1 << 3
INFO_EXIT_CODE = 60
"""PIDFD_INFO_EXIT, which kernels since 6.15 know, and where in the structure the exit code is."""


class WatchedProcess:
    """Watch one process, which is no child of ours."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self.descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self.descriptor = -1

    def is_alive(self, seconds: float = 0.0) -> bool:
        """Wait until it has ended, for some seconds at most, and tell whether it lives on."""
        if self.descriptor >= 0:
            return not select.select([self.descriptor], [], [], seconds)[0]
        if seconds:
            select.select([], [], [], seconds)
        return self._words()[:1] not in ([], [b"Z"], [b"X"])

    def is_suspended(self) -> bool:
        """Tell whether it was stopped by a signal or a tracer."""
        return self._words()[:1] in ([b"T"], [b"t"])

    def status(self) -> int | None:
        """Return the status with which it has ended, as ``waitpid`` would, or None if nobody tells."""
        words = self._words()
        if words[:1] == [b"Z"] and len(words) > 49:
            return int(words[49])
        return self._status_of_reaped()

    def _words(self) -> list[bytes]:
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:  # noqa: PTH123
                return file.read().rpartition(b")")[2].split()
        except OSError:
            return []

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


def facts_of(pid: int) -> dict[str, str]:
    """Return what names a process's core file; nothing, once it has ended."""
    folder = f"/proc/{pid}/"
    try:
        status = os.stat(folder)  # noqa: PTH116
        facts = {"uid": str(status.st_uid), "gid": str(status.st_gid)}
        facts["cwd"], facts["exe"] = os.readlink(folder + "cwd"), os.readlink(folder + "exe")  # noqa: PTH115
        for key, name in (("name", "comm"), ("limits", "limits")):
            with open(folder + name, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                facts[key] = file.read().rstrip("\n")
    except OSError:
        return {}
    return facts


def leave_rank() -> None:
    """Have nothing in common with the rank but the pipe: no session, no signals, no descriptors."""
    import signal

    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Meant for the job, of which the guard tells how it ends; it ends with it by itself.
        signal.signal(number, signal.SIG_IGN)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                # The one by which the folder was listed.
                continue


def leave_parent() -> None:
    """Be no child of the rank any more: go on in a process of process 1's, and end in this one."""
    if os.fork():
        os._exit(0)
