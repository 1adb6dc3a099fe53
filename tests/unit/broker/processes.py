"""``dbg-broker`` in a process of its own, as users run it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path

from tests.support.processes import run_command, started
from tests.support.time_unit import seconds

SECONDS = seconds(30)
"""Seconds that a command may take; far above the time that it takes on a busy machine."""

READY = re.compile(r"dbg-broker (?P<release>\S+) ready at (?P<url>wss?://\S+) \(pid (?P<pid>\d+), home (?P<home>.+)\)")


def environment(home: Path, changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a user whose broker's home is ``home``."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("DBG_")}
    return {**mine, "DBG_HOME": str(home), "PYTHONWARNINGS": "error", **(changes or {})}


def run(home: Path, *arguments: str, changes: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a verb to its end."""
    return run_command([sys.executable, "-m", "dbg_broker", *arguments], environment(home, changes), SECONDS)


class Serving:
    """A ``dbg-broker serve`` that is ready.

    With statements in ``first`` it is no fork, but an interpreter of its own that runs these before it serves.
    """

    def __init__(self, home: Path, arguments: Sequence[str] = ("--listen", "127.0.0.1:0"), *, first: str = "") -> None:
        self.home = home
        program = f"{first}\nimport runpy; runpy.run_module('dbg_broker', run_name='__main__', alter_sys=True)"
        # What it occupies is measured: a fork occupies less at first, and more with each page of its server's.
        own = [sys.executable, "-c", program]
        command = [*(own if first else [sys.executable, "-m", "dbg_broker"]), "serve", *arguments]
        self._started = started(command, environment(home), None, "KILL")
        self.exit_status: int | None = None
        """None until :meth:`end`, then as of :class:`subprocess.Popen`."""
        self.output, self.errors = TextIOWrapper(self._started.stdout), TextIOWrapper(self._started.stderr)
        line = self.output.readline()
        ready = READY.fullmatch(line.rstrip("\n"))
        if ready is None:
            raise AssertionError(f"not ready: {line!r} {self.end(signal.SIGKILL)}")
        self.url = ready["url"]
        self.port = int(self.url.rpartition(":")[2])
        self.pid = int(ready["pid"])

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """End the broker by a signal; return its exit status and the rest of its output and errors."""
        os.kill(self._started.pid, number)
        with self.output as output, self.errors as errors:
            told = output.read(), errors.read()
        self.exit_status = self._started.status()
        self._started.reap()
        return self.exit_status, *told


Serve = Callable[..., Serving]
"""Start a broker with some arguments."""


def tokens(home: Path) -> list[str]:
    """Return the three tokens of a home: the rank's, the driver's, the watcher's."""
    return [(home / "tokens" / role).read_text().strip() for role in ("rank", "driver", "watcher")]
