"""The guard of one rank: it reads what the rank's faulthandler writes, and reports a hang or a fatal end.

:mod:`dbg_agent.guard.rank_side` runs this file as a script, with the pipe as stdin. It imports only what a bare
interpreter has loaded anyway, ``watched`` and ``proc``: each rank has a guard, and nearly all guards end without a
report.
"""

from __future__ import annotations

import os
import select
import sys
import time

# A bare interpreter finds no packages. The rank's own path may have other modules first; a report adds it.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120
from dbg_agent.host.watched import (
    GRACE_SECONDS,
    LINGER_SECONDS,
    LOOK_SECONDS,
    PIPE,
    WatchedProcess,
    leave_parent,
    leave_rank,
)

sys.path.pop()

MARK = b"\x01"


class Pipe:
    """What the rank writes: first a line about itself, ``PID SECONDS JSON``, then beats and dumps.

    ``said`` is the part that may still be needed. ``beat_at`` is when the last beat came, or None while none is
    expected. ``is_over`` says that the rank ends its guard and waits for that, ``is_called`` that the broker has
    something for the guard to do.
    """

    def __init__(self) -> None:
        self.said = b""
        # The rank ran when it wrote that line, and may have been stuck ever since.
        self.beat_at: float | None = time.monotonic()
        self.is_over = self.is_called = self._has_left = False
        while b"\n" not in self.said:
            if not self.read():
                raise SystemExit(0)
        line, _, self.said = self.said.partition(b"\n")
        pid, seconds, self.about = line.split(b" ", 2)
        self.pid, self._patience = int(pid), float(seconds)

    def read(self) -> bool:
        """Wait for data and take it in; return False at the end of the pipe."""
        data = os.read(PIPE, 65536)
        self.said += data
        if MARK in data:
            self.beat_at = time.monotonic()
            last = self.said.rindex(MARK)
            if self.said.startswith(MARK + b"calm", last):
                self.beat_at = None
            self.is_over |= MARK + b"end " in self.said
            self.is_called |= MARK + b"call " in self.said
            if MARK + b"leave " in self.said and not self._has_left:
                self._has_left = True
                leave_parent()
            if not self.has_dump():
                self.said = self.said[last:]
        return bool(data)

    def has_dump(self) -> bool:
        """Tell whether there is more than the rank's own lines."""
        return any(line and not line.startswith(MARK) for line in self.said.split(b"\n"))

    def patience(self) -> float | None:
        """Return the seconds within which the next beat must come, or None if no beat is expected."""
        return None if self.beat_at is None else max(0.0, self.beat_at + self._patience - time.monotonic())


def wait_for_news(pipe: Pipe, process: WatchedProcess) -> bool:
    """Wait for a dump, a missing beat or a call, and return True; or for the end, and tell if that is news."""
    watched = [PIPE] if process.descriptor < 0 else [PIPE, process.descriptor]
    while not (pipe.has_dump() or pipe.is_called):
        patience = pipe.patience()
        if process.descriptor < 0:
            patience = min(LOOK_SECONDS, LOOK_SECONDS if patience is None else patience)
        ready = select.select(watched, [], [], patience)[0]
        if not ready and pipe.patience() == 0.0:
            # If the host or container was suspended, this process may go on before the rank does.
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
            # Its last words come a moment after its end, if that is seen first.
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
    from dbg_agent.guard.reporting import Witness

    Witness(about, process, pipe.beat_at).run(pipe.said, is_called=pipe.is_called)


if __name__ == "__main__":
    main()
