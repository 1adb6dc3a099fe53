"""What each row gets to measure with: a folder, processes that end with the row, brokers, and the patience to wait."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.figures import Figure
from tests.support.broker import RunningBroker, running_broker
from tests.support.processes import Child, Processes

ROOT = Path(__file__).parents[1]

PATIENCE = 120.0
"""Seconds that a row waits for what must come, as ten thousand ranks at a busy broker."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table, which can be measured alone; ``title`` is a sentence about what is measured."""

    name: str
    title: str
    measure: Callable[[Bench], Sequence[Figure]]


class Unmeasurable(Exception):
    """A row that can't be measured here, with the sentence why."""


class Bench:
    """The processes of one row; ``folder`` is its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes = Processes(folder / "logs")
        self._homes = 0

    def broker(self, *arguments: str) -> RunningBroker:
        """Start a broker with a home of its own."""
        self._homes += 1
        home = self.folder / f"home{self._homes}"
        home.mkdir(mode=0o700)
        return running_broker(self.processes, home, *arguments)

    def module(self, name: str, *arguments: object, env: Mapping[str, str] | None = None) -> Child:
        """Start ``python -m NAME`` with these arguments."""
        command = [sys.executable, "-m", name, *map(str, arguments)]
        return self.processes.start(name.rpartition(".")[2], command, env=env, cwd=ROOT)

    def ranks(self, url: str, token: str, count: int, *, first: int = 0) -> None:
        """Connect ranks that run and answer probes, and return when all are registered."""
        self.module("benchmarks.idle_ranks", url, token, count, first).wait_for_output("there", PATIENCE)


@contextmanager
def new_bench(folder: Path) -> Iterator[Bench]:
    """Give a row what it measures with, and end all its processes."""
    bench = Bench(folder)
    try:
        yield bench
    finally:
        bench.processes.end_all()


def interleaved(rounds: int, variants: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Measure each variant once in each round, in a new order each time; the first round warms up and is dropped."""
    found: dict[str, list[T]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        order = list(variants)
        random.shuffle(order)
        for name in order:
            measured = variants[name]()
            if number:
                found[name].append(measured)
    return found


@contextmanager
def apart() -> Iterator[Callable[[Child], Child]]:
    """Keep this process, and those that it starts, on the last core; what is given a process puts it on the first.

    A key then wakes another core at each hop, as between hosts, and no round depends on what the scheduler likes.
    """
    cores = os.sched_getaffinity(0)

    def serves(child: Child) -> Child:
        os.sched_setaffinity(child.pid, {min(cores)})
        return child

    os.sched_setaffinity(0, {max(cores)})
    try:
        yield serves
    finally:
        os.sched_setaffinity(0, cores)


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def memory_kib(pid: int) -> int:
    """Return the resident memory of a process in KiB."""
    status = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("Rss:")).split()[1])


def last_document(child: Child) -> dict[str, float]:
    """Return the JSON document in the last line that a process has printed."""
    told: dict[str, float] = json.loads(child.text().splitlines()[-1])
    return told
