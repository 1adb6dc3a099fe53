"""Be the guard of one rank: read what its faulthandler writes, see how it ends, and report it if that is news.

Run as a script by the rank's :mod:`dbg_agent.guard.rank_side`, with the pipe as stdin. Nothing is imported but what a
bare interpreter has loaded anyway, and the module beside this one: there is one of these beside each rank, and nearly
all of them end without a word.
"""

from __future__ import annotations

import os
import select
import sys
import time

# A bare interpreter finds no packages. The path of the rank, which may have other modules first, follows with the news.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120
from dbg_agent.guard.watched import (
    GRACE_SECONDS,
    LINGER_SECONDS,
    LOOK_SECONDS,
    PIPE,
    SIGNAL,
    WatchedProcess,
    facts_of,
    leave_parent,
    leave_rank,
)

sys.path.pop()

MARK = b"\x01"


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


def wait_for_news(pipe: Pipe, process: WatchedProcess) -> bool:
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
    process = WatchedProcess(pipe.pid)
    at_begin = facts_of(pipe.pid)
    if not wait_for_news(pipe, process):
        return
    # Before the imports: by the time they are done, a process that a signal ends has gone.
    facts = facts_of(pipe.pid) or at_begin
    import json

    about = json.loads(pipe.about)
    sys.path.extend(about["path"])
    from dbg_agent.guard.reporting import Witness

    Witness(about, process, facts, pipe.beat_at).run(pipe.said)


if __name__ == "__main__":
    main()
