"""The guard of one rank: reads the dumps of the rank's faulthandler, and reports a hang or a fatal end.

:mod:`dbg_agent.guard.rank_side` runs this file as a script, with the pipe as stdin. It only imports ``watched``,
``proc`` and modules that a bare interpreter has loaded anyway. Each rank has a guard, and nearly all guards end without
a report, so a guard loads little.
"""

from __future__ import annotations

import os
import select
import sys
import time

# The guard's interpreter is started without site-packages, so the agent's folder is added here for these imports. The
# rank's ``sys.path`` is added later, and only for a report: it may contain other modules of the same names.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120
from dbg_agent.host.watched import (
    CHECK_SECONDS,
    GRACE_SECONDS,
    LINGER_SECONDS,
    PIPE,
    WatchedProcess,
    leave_parent,
    leave_rank,
)

sys.path.pop()

MARK = b"\x01"


class Pipe:
    """Reader of the rank's pipe: one line about the rank, ``PID SECONDS JSON``, then beats and dumps.

    ``received`` is the data that may still be needed for a report. ``beat_at`` is the time of the most recent beat, or
    None while no beat is expected. ``is_over`` means that the rank has told its guard to end, and waits for that.
    ``is_called`` means that the broker has work for the guard.
    """

    def __init__(self) -> None:
        self.received = b""
        # The first line counts as a beat: the rank was running when it wrote this line, and may be stuck since then.
        self.beat_at: float | None = time.monotonic()
        self.is_over = self.is_called = self._has_left = False
        while b"\n" not in self.received:
            if not self.read():
                raise SystemExit(0)
        line, _, self.received = self.received.partition(b"\n")
        pid, seconds, self.about = line.split(b" ", 2)
        self.pid, self._patience = int(pid), float(seconds)

    def read(self) -> bool:
        """Wait for data and process it. Return False at the end of the pipe."""
        data = os.read(PIPE, 65536)
        self.received += data
        if MARK in data:
            self.beat_at = time.monotonic()
            last = self.received.rindex(MARK)
            if self.received.startswith(MARK + b"calm", last):
                self.beat_at = None
            self.is_over |= MARK + b"end " in self.received
            self.is_called |= MARK + b"call " in self.received
            if MARK + b"leave " in self.received and not self._has_left:
                self._has_left = True
                leave_parent()
            if not self.has_dump():
                self.received = self.received[last:]
        return bool(data)

    def has_dump(self) -> bool:
        """Return True if there is more data than the rank's own lines."""
        return any(line and not line.startswith(MARK) for line in self.received.split(b"\n"))

    def timeout(self) -> float | None:
        """Return the number of seconds until the next beat is overdue, or None if no beat is expected."""
        return None if self.beat_at is None else max(0.0, self.beat_at + self._patience - time.monotonic())


def wait_for_news(pipe: Pipe, process: WatchedProcess) -> bool:
    """Wait for a dump, a missing beat, a call, or the rank's end. Return True if there is something to report."""
    watched = [PIPE] if process.descriptor < 0 else [PIPE, process.descriptor]
    while not (pipe.has_dump() or pipe.is_called):
        timeout = pipe.timeout()
        if process.descriptor < 0:
            timeout = min(CHECK_SECONDS, CHECK_SECONDS if timeout is None else timeout)
        ready = select.select(watched, [], [], timeout)[0]
        if not ready and pipe.timeout() == 0.0:
            # The beat may be missing because the host or container was suspended: this process may then continue a
            # little earlier than the rank. So the rank gets some more time.
            ready = select.select(watched, [], [], GRACE_SECONDS)[0]
            if not ready:
                return True
        if PIPE in ready:
            has_ended = not pipe.read()
            process.memory.note()
        else:
            has_ended = not process.is_alive()
        if pipe.is_over:
            return False
        if has_ended:
            if process.is_alive(LINGER_SECONDS):
                return False
            # The guard may notice the end of the process before it has read all that the process wrote into the pipe.
            while PIPE in select.select([PIPE], [], [], 0)[0] and pipe.read():
                pass
            return not pipe.is_over and process.has_ended_unheard(is_calm=pipe.beat_at is None)
    return True


def main() -> None:
    """Guard the rank until it has ended."""
    leave_rank()
    pipe = Pipe()
    process = WatchedProcess(pipe.pid)
    if not wait_for_news(pipe, process):
        return
    import json

    about = json.loads(pipe.about)
    sys.path.extend(about["path"])
    from dbg_agent.guard.reporting import GuardReporter

    GuardReporter(about, process, pipe.beat_at).run(pipe.received, is_called=pipe.is_called)


if __name__ == "__main__":
    main()
