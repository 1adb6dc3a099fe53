"""Be the guard of one rank: read what its faulthandler writes, see how it ends, and fetch a witness if that is news.

Run as a script by the rank's :mod:`dbg_agent.guard.rank_side`, with the pipe as stdin. Nothing is imported but what a
bare interpreter has loaded anyway: there is one of these beside each rank, and nearly all of them end without a word.
"""

from __future__ import annotations

import os
import select
import sys
import time

PIPE = 0

LINGER_SECONDS = 2.0
"""Seconds between the end of the pipe and that of the process; after them the rank has only let go of its guard."""

GRACE_SECONDS = 1.0
"""Seconds that a beat may be later than it should: a rank that goes on after a suspension sends one at once."""

LOOK_SECONDS = 30.0
"""Seconds between two looks at whether the rank lives, on kernels before 5.3, which can't tell by themselves."""

MARK = b"\x01"

SIGNAL = 0x7F
"""Bits of a status that hold the signal which ended the process."""

GET_INFO = 0xC040FF0B
"""The ioctl PIDFD_GET_INFO for the first release of its structure, of 64 bytes."""

INFO_EXIT = 1 << 3
INFO_EXIT_CODE = 60
"""PIDFD_INFO_EXIT, which kernels since 6.15 know, and where in the structure the exit code is."""


class Process:
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


class Pipe:
    """Read what the rank tells: first a line about itself, ``PID SECONDS JSON``, then beats and dumps.

    ``said`` is what may still be of use of that, ``beat_at`` when the last beat came, None while none is expected.
    ``is_over`` says that the rank ends its guard and waits for it.
    """

    def __init__(self) -> None:
        self.said = b""
        # Whoever has written that line was running, and may have been stuck ever since.
        self.beat_at: float | None = time.monotonic()
        self.is_over = self._has_left = False
        while b"\n" not in self.said:
            if not self.read():
                raise SystemExit(0)
        line, _, self.said = self.said.partition(b"\n")
        pid, seconds, self.about = line.split(b" ", 2)
        self.pid, self._patience = int(pid), float(seconds)

    def read(self) -> bool:
        """Take what is there, or wait for it; return False at the end."""
        data = os.read(PIPE, 65536)
        self.said += data
        if MARK in data:
            self.beat_at = time.monotonic()
            last = self.said.rindex(MARK)
            if self.said.startswith(MARK + b"calm", last):
                self.beat_at = None
            self.is_over |= MARK + b"end " in self.said
            if MARK + b"leave " in self.said and not self._has_left:
                self._has_left = True
                leave_parent()
            if not self.has_dump():
                self.said = self.said[last:]
        return bool(data)

    def has_dump(self) -> bool:
        """Tell whether there is more than lines of the rank's own."""
        return any(line and not line.startswith(MARK) for line in self.said.split(b"\n"))

    def patience(self) -> float | None:
        """Return for how long a beat may still be away, or None if none is expected."""
        return None if self.beat_at is None else max(0.0, self.beat_at + self._patience - time.monotonic())


def wait_for_news(pipe: Pipe, process: Process) -> bool:
    """Wait until there is a dump, or no beat, and return True; or for the rank's end, and tell if a signal ended it."""
    watched = [PIPE] if process.descriptor < 0 else [PIPE, process.descriptor]
    while not pipe.has_dump():
        patience = pipe.patience()
        if process.descriptor < 0:
            patience = min(LOOK_SECONDS, LOOK_SECONDS if patience is None else patience)
        ready = select.select(watched, [], [], patience)[0]
        if not ready and pipe.patience() == 0.0:
            # Suspended with its host or container, this process may be the first of the two to go on.
            ready = select.select(watched, [], [], GRACE_SECONDS)[0]
            if not ready:
                return True
        has_ended = not pipe.read() if PIPE in ready else not process.is_alive()
        if pipe.is_over:
            return False
        if has_ended:
            return not process.is_alive(LINGER_SECONDS) and bool((process.status() or 0) & SIGNAL)
    return True


def main() -> None:
    """Guard the rank until it has ended."""
    leave_rank()
    pipe = Pipe()
    process = Process(pipe.pid)
    at_begin = facts_of(pipe.pid)
    if not wait_for_news(pipe, process):
        return
    # Before the imports: by the time they are done, a process that a signal ends has gone.
    facts = facts_of(pipe.pid) or at_begin
    import json

    about = json.loads(pipe.about)
    sys.path.extend(about["path"])
    # This script, run as the main program, is what the import below asks for by its other name.
    sys.modules["dbg_agent.guard.process"] = sys.modules[__name__]
    from dbg_agent.guard.reporting import Witness

    Witness(about, process, facts, pipe.beat_at).run(pipe.said)


if __name__ == "__main__":
    main()
