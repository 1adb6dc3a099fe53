"""PuDB in a terminal: a step, and how long it takes to sit down, beside stock ``pudb.remote`` and socat."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.bench import PATIENCE, Bench, Row, interleaved
from benchmarks.figures import Figure
from tests.support.processes import Child
from tests.support.ranks import attach_command, start_ranks, wait_until_stopped
from tests.support.terminal import Terminal

ROUNDS, STEPS, SITTINGS = 5, 20, 5
ROWS_SHOWN, COLUMNS = 30, 100

FIRST = 10_000_000
"""Value of a variable that each step counts up; PuDB shows it, and no line of the program has it in its text."""

PROGRAM = (
    f"""\
import os
def count():
    seen = int("{FIRST}")
    {{stop}}
{"    seen = seen + 1" + chr(10)}
""".replace("    seen = seen + 1\n", "    seen = seen + 1\n" * (ROUNDS + 3) * STEPS)
    + "count()\n"
)

OURS = PROGRAM.format(stop="__import__('dbg_agent').set_trace()")
STOCK = PROGRAM.format(
    stop="__import__('pudb.remote').remote.set_trace("
    f"term_size=({COLUMNS}, {ROWS_SHOWN}), host='127.0.0.1', port=int(os.environ['PORT']), reverse=True)"
)
WAITING = f"""\
import signal
# Threads that an import starts must not take the signal.
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR1}})
import pudb.remote
print("waits", flush=True)
signal.sigwait({{signal.SIGUSR1}})
{STOCK}"""
"""The same, which dials once it gets a signal."""

DRAWN = b"ariables:"
"""Bytes of every screen of PuDB; the letter before them is underlined."""

SETTLE_SECONDS = 0.5
"""Seconds in which a step has surely been drawn, before any counts."""

BASELINE = "stock pudb.remote and socat"
OURS_NAME = "dbg-attach"


class Stepping:
    """A terminal that steps through the program."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._seen = FIRST
        terminal.skim(DRAWN, PATIENCE)
        # Ours stands at the call, and stock PuDB at the line behind it: the first step that counts may be the second.
        while str(FIRST + 1).encode() not in terminal.output:
            terminal.send("n")
            terminal.read_for(SETTLE_SECONDS)
        while str(self._seen + 1).encode() in terminal.output:
            self._seen += 1

    def steps(self) -> float:
        """Step STEPS times, each once the one before is drawn; return the milliseconds of one."""
        began = time.perf_counter()
        for _ in range(STEPS):
            self._seen += 1
            self._terminal.send("n")
            self._terminal.skim(str(self._seen).encode(), PATIENCE)
        return 1000 * (time.perf_counter() - began) / STEPS


def no_greeting(bench: Bench) -> dict[str, str]:
    """Return variables with which PuDB greets nobody."""
    config = bench.folder / "config/pudb"
    config.mkdir(parents=True, exist_ok=True)
    (config / "pudb.cfg").write_text("[pudb]\nseen_welcome = z\n")
    return {"XDG_CONFIG_HOME": str(config.parent)}


def started(bench: Bench, text: str, **variables: str) -> Child:
    """Start a program that calls stock PuDB."""
    script = bench.folder / "stock.py"
    script.write_text(text)
    return bench.processes.start(
        "stock", [sys.executable, str(script)], env={**os.environ, **no_greeting(bench), **variables}
    )


def window(command: list[str], env: Mapping[str, str]) -> Terminal:
    """Open a terminal in which a command starts as a user's does, not as a fork of ours."""
    return Terminal(["env", *command], ROWS_SHOWN, COLUMNS, env)


@contextmanager
def stock_window(bench: Bench, text: str) -> Iterator[tuple[Terminal, Child]]:
    """Start a program of stock PuDB that dials the terminal in which socat listens; give both."""
    command = ["socat", "-d", "-d", "TCP-LISTEN:0,bind=127.0.0.1,nodelay", "-,raw,echo=0"]
    with window(command, os.environ) as terminal:
        port = re.compile(r"listening on \S+ \S*?:(\d+)")
        terminal.wait_for(port)
        found = port.search("\n".join(terminal.screen))
        assert found is not None
        yield terminal, started(bench, text, PORT=found[1])


@contextmanager
def our_window(bench: Bench, home: Path) -> Iterator[Terminal]:
    """Have PuDB in the terminal of dbg-attach."""
    with window(attach_command("0"), {**os.environ, "DBG_HOME": str(home)}) as terminal:
        yield terminal


def stopped_rank(bench: Bench) -> Path:
    """Start a rank that is stopped, and return its home."""
    broker = bench.broker()
    start_ranks(bench.processes, broker.home, OURS, 1, env=no_greeting(bench))
    wait_until_stopped(broker.home, 1)
    return broker.home


def step(bench: Bench) -> list[Figure]:
    """Measure steps."""
    home = stopped_rank(bench)
    with ExitStack() as windows:
        stock = Stepping(windows.enter_context(stock_window(bench, STOCK))[0])
        ours = Stepping(windows.enter_context(our_window(bench, home)))
        found = interleaved(ROUNDS, {BASELINE: stock.steps, OURS_NAME: ours.steps})
    return compared(found, "ms")


def compared(found: Mapping[str, list[float]], unit: str) -> list[Figure]:
    """Return figures that are compared with the first of them."""
    baseline, *_ = found
    return [Figure(name, unit, tuple(values), None if name == baseline else baseline) for name, values in found.items()]


def attach_seconds(home: Path, bench: Bench) -> float:
    """Return the seconds from the command to PuDB on the screen, at a rank that is stopped."""
    began = time.perf_counter()
    with our_window(bench, home) as terminal:
        terminal.skim(DRAWN, PATIENCE)
        # The window is closed then, by which the rank stays stopped.
        return time.perf_counter() - began


def stock_seconds(bench: Bench) -> float:
    """Return the seconds from the moment a program dials to PuDB on the screen, in a terminal that listens already."""
    with stock_window(bench, WAITING) as (terminal, program):
        program.wait_for_output("waits", PATIENCE)
        began = time.perf_counter()
        program.signal(signal.SIGUSR1)
        terminal.skim(DRAWN, PATIENCE)
        took = time.perf_counter() - began
        program.kill()
        program.wait()
    return took


def attach(bench: Bench) -> list[Figure]:
    """Measure how long it takes to sit down."""
    home = stopped_rank(bench)
    first: list[float] = [attach_seconds(home, bench)]
    ways: dict[str, Callable[[], float]] = {
        BASELINE: lambda: stock_seconds(bench),
        OURS_NAME: lambda: attach_seconds(home, bench),
    }
    found = compared(interleaved(SITTINGS, ways), "s")
    return [*found, Figure(f"{OURS_NAME}, the first time, in which the rank imports PuDB", "s", tuple(first))]


ROWS = (
    Row("step", "`n` in PuDB until the screen shows what it did", step),
    Row("attach", "the command until PuDB is on the screen, at a rank that is stopped", attach),
)
