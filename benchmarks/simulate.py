"""Simulate: light ranks by the ten thousand, at one broker or at several as one, and what they cost it.

``python -m benchmarks.simulate [--ranks N] [--brokers N] [--processes N] [--idle SECONDS] [--json FILE]``
starts the brokers, has the ranks come all at once, and measures how fast they are there, what each takes of memory and
of a core while nothing happens, and what questions take, from a shell at the first broker. More than one broker needs
``nats-server``, and TLS. How many ranks one broker holds is bounded by ``ulimit -n``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.__main__ import use_clean_environment
from benchmarks.bench import Bench, memory_kib, new_bench, processor_seconds
from benchmarks.looks import command_seconds
from benchmarks.machine import machine
from tests.support.broker import RunningBroker
from tests.support.cluster import Brokers
from tests.support.nats_servers import NatsServers
from tests.support.processes import Child

PATIENCE = 600.0
"""Seconds for all ranks to be there: the processes that play them may have the same cores as the brokers."""

SETTLE_SECONDS = 5.0
"""Seconds after which ranks that came at once are idle."""

QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "list": ("list",),
    "eval": ("eval", "all", "loss", "--live"),
    "where": ("where", "all"),
}


@dataclass(frozen=True, slots=True)
class Site:
    """The brokers, and the processes that play the ranks."""

    brokers: Sequence[RunningBroker]
    crowds: Sequence[Child]

    def processor(self) -> float:
        """Return the processor time of all brokers."""
        return sum(processor_seconds(broker.process.pid) for broker in self.brokers)

    def memory(self) -> list[int]:
        """Return the resident memory of each broker, in KiB."""
        return [memory_kib(broker.process.pid) for broker in self.brokers]


def start_brokers(bench: Bench, count: int) -> Sequence[RunningBroker]:
    """Start brokers that act as one, or a single one."""
    if count == 1:
        return [bench.broker()]
    nats = NatsServers(bench.processes, bench.folder)
    nats.start()
    brokers = Brokers(bench.processes, nats, bench.folder, bench.folder / "tokens")
    for _ in range(count):
        brokers.add()
    return brokers


def start_ranks(bench: Bench, brokers: Sequence[RunningBroker], ranks: int, processes: int) -> list[Child]:
    """Have ranks come, all at the same time."""
    urls = ",".join(broker.url for broker in brokers)
    token = brokers[0].tokens["rank"]
    crowds = []
    for number in range(processes):
        first, end = ranks * number // processes, ranks * (number + 1) // processes
        crowds.append(bench.module("benchmarks.light_ranks", urls, token, end - first, first, ranks))
    return crowds


def arrival(site: Site, ranks: int, before: float, memory: Sequence[int]) -> dict[str, Any]:
    """Wait until all are there, and return how that went."""
    told = [json.loads(crowd.wait_for_output(r"^\{.*\}", PATIENCE)[0]) for crowd in site.crowds]
    spent = site.processor() - before
    seconds = max(one.pop("seconds") for one in told)
    attempts: Counter[str] = Counter()
    for one in told:
        one.pop("ranks")
        attempts.update(one)
    return {
        "seconds until all are there": round(seconds, 1),
        "ranks a second": round(ranks / seconds),
        "ms of the brokers' time for a rank": round(1000 * spent / ranks, 3),
        "KiB of all brokers for a rank": round((sum(site.memory()) - sum(memory)) / ranks, 1),
        "MiB of each broker": [round(kib / 1024) for kib in site.memory()],
        "attempts": dict(attempts),
    }


def idle(site: Site, ranks: int, seconds: float) -> dict[str, Any]:
    """Return what idle ranks take of a core."""
    time.sleep(SETTLE_SECONDS)
    before, began = site.processor(), time.monotonic()
    time.sleep(seconds)
    share = (site.processor() - before) / (time.monotonic() - began)
    return {"% of a core": round(100 * share, 2), "% of a core for 1,000 ranks": round(100_000 * share / ranks, 3)}


def questions(site: Site, ranks: int) -> dict[str, Any]:
    """Return what each question takes, from a shell at the first broker."""
    told = {}
    for name, words in QUESTIONS.items():
        before = site.processor()
        seconds = command_seconds(site.brokers[0].home, *words)
        spent = site.processor() - before
        told[name] = {
            "seconds": round(seconds, 2),
            "ms of the brokers' time for a rank": round(1000 * spent / ranks, 4),
        }
    return told


def simulate(options: argparse.Namespace) -> dict[str, Any]:
    """Measure, and return all figures."""
    with tempfile.TemporaryDirectory() as folder, new_bench(Path(folder)) as bench:
        brokers = start_brokers(bench, options.brokers)
        site = Site(brokers, [])
        before, memory = site.processor(), site.memory()
        site = Site(brokers, start_ranks(bench, brokers, options.ranks, options.processes))
        told = {"ranks": options.ranks, "brokers": options.brokers, **machine()}
        for name, measure in (
            ("arrival", partial(arrival, site, options.ranks, before, memory)),
            ("idle", partial(idle, site, options.ranks, options.idle)),
            ("questions", partial(questions, site, options.ranks)),
        ):
            told[name] = measure()
            sys.stdout.write(f"{name}: {json.dumps(told[name])}\n")
            sys.stdout.flush()
        return told


def main() -> None:
    """Simulate what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulate", description="Simulate many ranks.")
    parser.add_argument("--ranks", type=int, default=15_000, help="how many come (15,000)")
    parser.add_argument("--brokers", type=int, default=1, help="how many brokers act as one (1)")
    parser.add_argument("--processes", type=int, default=4, help="how many processes play the ranks (4)")
    parser.add_argument("--idle", type=float, default=40.0, help="for how many seconds idle ranks are measured (40)")
    parser.add_argument("--json", type=Path, help="where the figures are written, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        use_clean_environment(home)
        told = simulate(options)
    if options.json is not None:
        options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
    # Ten thousand connections need not be closed one by one.
    os._exit(0)
