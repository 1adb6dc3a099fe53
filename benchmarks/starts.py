"""The start of each command, from its call to its end, beside an interpreter that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.bench import Bench, Row, interleaved
from benchmarks.figures import Figure
from benchmarks.looks import crowd
from benchmarks.pudb import compared
from tests.support.ranks import attach_command

ROUNDS, RANKS = 7, 8

INTERPRETER = (sys.executable, "-c", "pass")

BROKER = str(Path(sys.executable).with_name("dbg-broker"))


def milliseconds(command: tuple[str, ...], env: Mapping[str, str]) -> float:
    """Run a command to its end; return the milliseconds."""
    began = time.perf_counter()
    subprocess.run(command, env=dict(env), check=True, capture_output=True)
    return 1000 * (time.perf_counter() - began)


def timed(command: tuple[str, ...], env: Mapping[str, str]) -> Callable[[], float]:
    """Return what runs a command and returns the milliseconds."""
    return lambda: milliseconds(command, env)


def start(bench: Bench) -> list[Figure]:
    """Measure commands at a broker with some ranks."""
    broker = bench.broker()
    crowd(bench, broker.url, broker.tokens["rank"], RANKS)
    env = {**os.environ, "DBG_HOME": str(broker.home)}
    script = bench.folder / "empty.py"
    script.write_text("")

    def attach(*words: str) -> tuple[str, ...]:
        return tuple(attach_command(*words))

    commands = {
        "python -c pass": INTERPRETER,
        "dbg-attach --version": attach("--version"),
        "dbg-attach help": attach("help"),
        "dbg-attach list": attach("list"),
        "dbg-attach where": attach("where", "all"),
        "dbg-broker --version": (BROKER, "--version"),
        "dbg-broker status": (BROKER, "status"),
        "dbg-broker token --list": (BROKER, "token", "--list"),
        "python -m dbg_agent, an empty script": (sys.executable, "-m", "dbg_agent", str(script)),
    }
    ways = {name: timed(command, env) for name, command in commands.items()}
    return compared(interleaved(ROUNDS, ways), "ms")


ROWS = (Row("start", f"each command to its end, at a broker with {RANKS} ranks", start),)
