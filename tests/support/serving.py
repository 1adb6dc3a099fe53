"""``dbg-broker`` in a process of its own, as users run it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.processes import run_command, with_death_signal
from tests.support.time_unit import seconds

SECONDS = seconds(30)
"""Seconds that a command may take; far above the time that it takes on a busy machine."""

READY = re.compile(r"dbg-broker (?P<release>\S+) ready at (?P<url>wss?://\S+) \(pid (?P<pid>\d+), home (?P<home>.+)\)")


def environment(home: Path, changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a user whose broker's home is ``home``."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("DBG_")}
    return {**mine, "DBG_HOME": str(home), "PYTHONWARNINGS": "error", **(changes or {})}


def run(home: Path, *arguments: str, changes: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, "-m", "dbg_broker", *arguments], environment(home, changes), SECONDS)


class Serving:
    """A ``dbg-broker serve`` that is ready; with statements in ``first`` it runs these before it serves."""

    def __init__(self, home: Path, arguments: Sequence[str] = ("--listen", "127.0.0.1:0"), *, first: str = "") -> None:
        self.home = home
        program = f"{first}\nimport runpy; runpy.run_module('dbg_broker', run_name='__main__', alter_sys=True)"
        command = [sys.executable, *(["-c", program] if first else ["-m", "dbg_broker"]), "serve", *arguments]
        self._process = subprocess.Popen(
            with_death_signal(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(home),
        )
        self.exit_status: int | None = None
        """None until :meth:`end`, then as of :class:`subprocess.Popen`."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.output, self.errors = self._process.stdout, self._process.stderr
        line = self.output.readline()
        ready = READY.fullmatch(line.rstrip("\n"))
        if ready is None:
            raise AssertionError(f"not ready: {line!r} {self.end(signal.SIGKILL)}")
        self.url = ready["url"]
        self.port = int(self.url.rpartition(":")[2])
        self.pid = int(ready["pid"])

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """End the broker by a signal; return its exit status and the rest of its output and errors."""
        self._process.send_signal(number)
        with self.output as output, self.errors as errors:
            told = output.read(), errors.read()
        self.exit_status = self._process.wait()
        return self.exit_status, *told


Serve = Callable[..., Serving]
"""Start a broker with some arguments."""


def tokens(home: Path) -> list[str]:
    return [(home / "tokens" / role).read_text().strip() for role in ("rank", "driver", "watcher")]


@pytest.fixture
def serve(home: Path) -> Iterator[Serve]:
    started: list[Serving] = []

    def start(*arguments: str, at: Path = home) -> Serving:
        started.append(Serving(at, arguments or ("--listen", "127.0.0.1:0")))
        return started[-1]

    yield start
    for serving in started:
        if serving.exit_status is None:
            serving.end(signal.SIGKILL)
