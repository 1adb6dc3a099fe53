"""``dbg-broker`` in a process of its own, as users run it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.processes import Processes, run_command
from tests.support.time_unit import seconds

SECONDS = seconds(30)
"""Seconds that a command may take; far above the time that it takes on a busy machine."""

READY = r"^dbg-broker \S+ ready at (?P<url>wss://\S+) \(pid \d+, home .+\)$"
ANY_PORT = ("--listen", "127.0.0.1:0")


def environment(home: Path, changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a user whose broker's home is ``home``."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("DBG_")}
    return {**mine, "DBG_HOME": str(home), "PYTHONWARNINGS": "error", **(changes or {})}


def run(home: Path, *arguments: str, changes: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, "-m", "dbg_broker", *arguments], environment(home, changes), SECONDS)


class Serving:
    """A ``dbg-broker serve`` that is ready; with statements in ``first`` it runs these before it serves."""

    def __init__(self, processes: Processes, home: Path, *arguments: str, first: str = "") -> None:
        self.home = home
        program = f"{first}\nimport runpy; runpy.run_module('dbg_broker', run_name='__main__', alter_sys=True)"
        command = [sys.executable, *(["-c", program] if first else ["-m", "dbg_broker"]), "serve"]
        self._child = processes.start("broker", [*command, *(arguments or ANY_PORT)], env=environment(home))
        ready = self._child.wait_for_output(READY, SECONDS)
        self.url = ready["url"]
        self.port = int(self.url.rpartition(":")[2])
        self.pid = self._child.pid

    def wait_for(self, line: str) -> None:
        """Wait until the broker logs a line with this text."""
        self._child.wait_for_output(line, SECONDS, stream="stderr")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """End the broker by a signal; return its exit status, its output but for the first line, and its errors."""
        self._child.signal(number)
        status = self._child.wait(SECONDS)
        return status, self._child.text().partition("\n")[2], self._child.text("stderr")


Serve = Callable[..., Serving]
"""Start a broker with some arguments."""


def tokens(home: Path) -> list[str]:
    return [(home / "tokens" / role).read_text().strip() for role in ("rank", "driver", "watcher")]


@pytest.fixture
def serve(processes: Processes, home: Path) -> Serve:
    def start(*arguments: str, at: Path = home) -> Serving:
        return Serving(processes, at, *arguments)

    return start
