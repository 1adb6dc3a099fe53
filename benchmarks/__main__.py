"""Measure: ``python -m benchmarks [ROW…] [--write] [--json FILE]``; without a ROW all of them, in at most ten minutes.

Prints a table, and writes what was measured as JSON. A row that fails says so in the table, and the rest goes on; the
exit status is 1 then. ``--write`` makes ``docs/performance.md`` and its picture of a run of all rows.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from benchmarks import (
    browser,
    bulk,
    clusters,
    crowds,
    faces,
    imports,
    keys,
    looks,
    numbers,
    prompt,
    pudb,
    slow,
    starts,
    storm,
    train_loop,
)
from benchmarks.bench import ROOT, Row, Unmeasurable, new_bench
from benchmarks.machine import machine
from benchmarks.page import lines_of, write
from tests.support.environment import clean_environment, is_foreign

MODULES = (
    *(keys, clusters, pudb, prompt, bulk, crowds, storm, looks),
    *(train_loop, slow, numbers, starts, imports, faces, browser),
)
ROWS: dict[str, Row] = {row.name: row for module in MODULES for row in module.ROWS}

JSON_FILE = ROOT / "build/benchmarks.json"
LAST = ROOT / "benchmarks/last.json"
"""The run that ``docs/performance.md`` shows."""


WHOLE_SECONDS, ROW_SECONDS = 540, 180
"""Seconds after which no further row is begun, so that the whole takes ten minutes, and those that a row may take."""


def told_of(row: Row) -> dict[str, Any]:
    """Return a row for the JSON file, without what was measured."""
    about = {"name": row.name, "title": row.title, "begun": True, "failed": None, "left_out": None}
    return {**about, "figures": [], "seconds": 0.0}


def left_out(row: Row) -> dict[str, Any]:
    """Return a row for which there is no time."""
    why = f"the rows before took {WHOLE_SECONDS} s; it is the first of the next run"
    return {**told_of(row), "begun": False, "left_out": why}


def in_order(before: Mapping[str, Any]) -> list[str]:
    """Return the names of all rows: those come first for which the run before had no time."""
    late = [row["name"] for row in before.get("rows", ()) if not row.get("begun", True)]
    return sorted(ROWS, key=lambda name: name not in late)


def measured(row: Row) -> dict[str, Any]:
    """Measure a row; return it for the JSON file, with what went wrong if it failed."""
    began = time.monotonic()
    told = told_of(row)
    with tempfile.TemporaryDirectory() as folder:
        try:
            with new_bench(Path(folder)) as bench, ends_within(ROW_SECONDS):
                figures = row.measure(bench)
            told["figures"] = [figure.document(figures) for figure in figures]
        except Unmeasurable as reason:
            told["left_out"] = str(reason)
        except Exception as error:
            sys.stderr.write(f"{row.name}: {error}\n")
            told["failed"] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}".replace(folder, "…")
    return {**told, "seconds": round(time.monotonic() - began, 1)}


@contextmanager
def ends_within(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in whatever the main thread does after so many seconds."""

    def give_up(_number: int, _frame: object) -> NoReturn:
        raise TimeoutError(f"it was not measured within {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    left = signal.alarm(seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.alarm(left)


def run(names: Sequence[str]) -> dict[str, Any]:
    """Measure rows, print each as soon as it is there, and return all for the JSON file."""
    rows = []
    began = time.monotonic()
    for name in names:
        row = left_out(ROWS[name]) if time.monotonic() > began + WHOLE_SECONDS else measured(ROWS[name])
        print("\n".join([*lines_of(row), ""]), flush=True)
        rows.append(row)
    return {"schema": 1, **machine(), "seconds": round(time.monotonic() - began), "rows": rows}


def use_clean_environment(home: str) -> None:
    """Leave out what a developer's shell has set, which must not decide a figure."""
    for name in [name for name in os.environ if is_foreign(name)]:
        del os.environ[name]
    os.environ.update(clean_environment(os.environ, Path(home)))


def main() -> int:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="one of " + ", ".join(ROWS))
    parser.add_argument("--write", action="store_true", help="make docs/performance.md of this run of all rows")
    parser.add_argument("--json", type=Path, default=JSON_FILE, metavar="FILE", help="where to write the figures")
    options = parser.parse_args()
    unknown = [name for name in options.rows if name not in ROWS]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    if options.write and options.rows:
        parser.error("--write shows one run of all rows; leave the names out")
    with tempfile.TemporaryDirectory() as home:
        use_clean_environment(home)
        before = json.loads(JSON_FILE.read_text()) if JSON_FILE.exists() else {}
        document = run(options.rows or in_order(before))
    files = [options.json, LAST] if options.write else [options.json]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=1) + "\n")
    if options.write:
        write(document)
    return 1 if any(row["failed"] for row in document["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
