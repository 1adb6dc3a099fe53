"""Measure the time from a command to PuDB on the screen: ``dbg-broker run``, and stock ``pudb.remote``."""

from __future__ import annotations

import statistics
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.prompt_times import job_environment, run_seconds, stock_seconds

ROUNDS = 5


def main() -> None:
    """Print both medians."""
    if find_spec("torch") is None:
        print("torch is not installed, and the job is one of torchrun; make test WITH_TORCH=1 installs it")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environ = {**job_environment(folder), "DBG_HOME": str(folder / "dbg"), "DBG_IDLE": "5"}
        first = run_seconds(folder, environ)
        times = [(stock_seconds(folder, environ), run_seconds(folder, environ)) for _ in range(ROUNDS)]
    stock, ours = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"two ranks of torchrun to PuDB, median of {ROUNDS}: stock pudb.remote {stock:.2f} s, run {ours:.2f} s")
    print(f"ratio {ours / stock:.2f}; the first run, which starts its broker, {first:.2f} s")


if __name__ == "__main__":
    main()
