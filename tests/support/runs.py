"""``dbg-attach run`` as users run it: in a terminal, in a directory, with a program that imports no debugger."""

from __future__ import annotations

import json
import os
import re
import select
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import OpenTerminal
from tests.support.processes import Processes
from tests.support.pudb_terminal import DRAWN
from tests.support.ranks import attach
from tests.support.terminal import Terminal
from tests.support.time_unit import seconds

PROGRAM = """\
import sys

def train(steps):
    total = 0
    for step in range(steps):
        total += step
        print("total", total, flush=True)
    return total

print("begins", flush=True)
train(3)
print("ends", file=sys.stderr)
sys.exit(7)
"""

STEP = "total += step"
"""The line of the program that tests stop at."""

STATUS = 7
"""Exit status of the program."""

IDLE = seconds(2)
"""Seconds for which a run's own broker stays when nobody needs it."""


def line_of(text: str, source: str = PROGRAM) -> int:
    return next(number for number, line in enumerate(source.split("\n"), 1) if text in line)


@dataclass
class Directory:
    """A directory in which runs are started, from one shell or several."""

    path: Path
    home: Path
    processes: Processes
    open_terminal: OpenTerminal
    environ: Mapping[str, str] = field(default_factory=dict)

    def write(self, source: str = PROGRAM, name: str = "train.py") -> Path:
        """Write the program, as an editor would."""
        path = self.path / name
        path.write_text(source)
        return path

    def command(self, *options: str) -> list[str]:
        run = str(Path(sys.executable).with_name("dbg-attach"))
        return ["env", "-C", str(self.path), run, "run", *options]

    @property
    def variables(self) -> dict[str, str]:
        return {**os.environ, "DBG_HOME": str(self.home), "DBG_IDLE": str(IDLE), **self.environ}

    def run(self, *options: str, rows: int = 30, cols: int = 140) -> Terminal:
        """Type a run into a new terminal; return at once."""
        return self.open_terminal(self.command(*options), rows=rows, cols=cols, env=self.variables)

    def start(self, *options: str) -> Terminal:
        """Type a run into a new terminal; return once there is a broker to ask."""
        terminal = self.run(*options)
        terminal.wait_for(lambda _: (self.home / "broker.json").exists())
        return terminal

    def run_to_prompt(self, *options: str, line: int) -> Terminal:
        """Return the terminal once it shows PuDB of rank 0 at this line, with no key pressed."""
        terminal = self.run(*options)
        wait_for_prompt(terminal, line)
        return terminal

    def left_behind(self, *terminals: Terminal) -> list[str]:
        """Return the command lines of started processes that still run, without those of windows and the broker.

        A process that ends by itself after the end of its rank has some seconds for that.
        """
        windows = frozenset[int]().union(*(terminal.processes for terminal in terminals))
        others = [pid for pid in self.processes.strays() if pid not in windows]
        left = [pid for pid in others if "--while-used" not in command_line(pid) and not ends_within(pid, seconds(5))]
        return [command_line(pid) for pid in left]

    def attach(self, *arguments: str) -> str:
        result = attach(self.home, *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def outputs(self) -> list[Path]:
        return sorted(self.home.glob("runs/*/*.out"))


def wait_for_prompt(terminal: Terminal, line: int, rank: int = 0, timeout: float | None = None) -> None:
    """Wait until the terminal shows PuDB of this rank at this line."""
    place = re.compile(rf"^ [^ ]*:{rank}  stopped  \S+\.py:{line} in ")

    def is_there(seen: Terminal) -> bool:
        return DRAWN in "\n".join(seen.screen) and place.match(seen.row(-1)) is not None

    terminal.wait_for(is_there, timeout)


def rank_at_prompt(terminal: Terminal, timeout: float | None = None) -> int:
    place = re.compile(r"^ [^ ]*:(\d+)  stopped  ")

    def is_there(seen: Terminal) -> bool:
        return DRAWN in "\n".join(seen.screen) and place.match(seen.row(-1)) is not None

    terminal.wait_for(is_there, timeout)
    found = place.match(terminal.row(-1))
    return int(found[1]) if found else -1


def text_of(terminal: Terminal) -> str:
    return "\n".join(terminal.screen)


def ends_within(pid: int, patience: float) -> bool:
    """Wait for a process to end, ``patience`` seconds at most; return whether it has."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], patience)[0])
    finally:
        os.close(handle)


def command_line(pid: int) -> str:
    """Return a process's command line, empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


LINE = line_of(STEP)
STOP = ("--stop-at", f"train.py:{LINE}")
PYTHON = ("--", sys.executable, "train.py")


def go_through(terminal: Terminal) -> None:
    """Go on from each of the three stops in the loop."""
    for step in range(3):
        wait_for_prompt(terminal, LINE)
        terminal.wait_for(re.compile(rf"step: {step}\b"))
        terminal.send("c")


def wait_for_broker_to_leave(directory: Directory, patience: float) -> None:
    """Wait for the broker of the home to end by itself; fail unless it does within ``patience`` seconds."""
    document = json.loads((directory.home / "broker.json").read_text())
    assert ends_within(document["pid"], patience), "the broker stays"
