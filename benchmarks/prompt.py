"""From a command to PuDB on the screen: ``dbg-broker run``, and stock ``pudb.remote`` with a listener."""

from __future__ import annotations

from importlib.util import find_spec

from benchmarks.bench import Bench, Row, Unmeasurable, interleaved
from benchmarks.figures import Figure
from benchmarks.pudb import compared
from tests.support.prompt_times import job_environment, run_seconds, stock_seconds

ROUNDS = 3


def needs_torch() -> None:
    """Refuse to measure without torch."""
    if find_spec("torch") is None:
        raise Unmeasurable("torch is not installed, which the job needs; make torch WITH_TORCH=1 installs it")


def prompt(bench: Bench) -> list[Figure]:
    """Measure both; the first run of each, which starts the broker, is dropped."""
    needs_torch()
    folder = bench.folder
    environ = {**bench.processes.marked(job_environment(folder)), "DBG_HOME": str(folder / "dbg"), "DBG_IDLE": "5"}
    ways = {
        "stock pudb.remote and a listener": lambda: stock_seconds(folder, environ),
        "dbg-broker run": lambda: run_seconds(folder, environ),
    }
    return compared(interleaved(ROUNDS, ways), "s")


ROWS = (Row("prompt", "the command until PuDB is on the screen, two ranks of torchrun with a compiled model", prompt),)
