"""Questions to many light ranks, which answer at once: whole commands, the library, and the broker's own time."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import dbg_client
from benchmarks.bench import PATIENCE, Bench, Row, Unmeasurable, interleaved, memory_kib, processor_seconds
from benchmarks.ends import WebSocketEnd
from benchmarks.figures import Figure
from dbg_wire.codec import encode
from dbg_wire.messages import Action, Ask
from tests.support.ranks import attach_command

ROUNDS = 5
FEWER, MORE = 1000, 10_000
MISSING = 11

BASELINE = "websockets server asks"

COMMANDS = {
    "eval, whole command": ("eval", "all", "1", "--live"),
    "where, whole command": ("where", "all"),
    "why, whole command": ("why",),
    "list, whole command": ("list",),
}


def command_seconds(home: Path, *words: str) -> float:
    """Return the seconds of a whole command of dbg-attach, its start included."""
    began = time.perf_counter()
    done = subprocess.run(
        attach_command(*words, "--timeout", str(PATIENCE)),
        env={**os.environ, "DBG_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.perf_counter() - began
    # `why` ends with 1 where it names a culprit, as it does here.
    if done.returncode not in {0, 1} or not done.stdout:
        raise AssertionError(f"dbg-attach {' '.join(words)} ended with status {done.returncode}: {done.stderr}")
    return took


def crowd(bench: Bench, url: str, token: str, count: int) -> None:
    """Connect ranks that answer."""
    ranks = bench.module("tests.support.crowd", "waiting", url, token, count, MISSING)
    ranks.wait_for_output("registered", PATIENCE)


def asked(end: WebSocketEnd) -> float:
    """Have the plain server ask all; return the seconds."""
    question = encode(Ask(request=1, action=Action.WHERE, seconds=PATIENCE, text=""))
    began = time.perf_counter()
    end.send(question)
    end.receive()
    return time.perf_counter() - began


def by_library(home: Path) -> float:
    """Return the seconds of a question of the library, over a connection that is there."""
    with connected(home) as broker:
        began = time.perf_counter()
        answer = broker.job().where(timeout=PATIENCE)
        took = time.perf_counter() - began
        if answer.document["answered"] != answer.document["asked"]:
            raise AssertionError(f"{answer.document['answered']} of {answer.document['asked']} ranks have answered")
        return took


def connected(home: Path) -> dbg_client.Broker:
    """Connect the library to the broker of a home."""
    os.environ["DBG_HOME"] = str(home)
    return dbg_client.connect(timeout=PATIENCE)


def looks(count: int) -> Callable[[Bench], list[Figure]]:
    """Return what measures questions to so many ranks."""

    def measure(bench: Bench) -> list[Figure]:
        if count > room():
            raise Unmeasurable(f"{count} ranks need as many descriptors, and `ulimit -Hn` allows {room()}")
        asker = bench.module("benchmarks.baselines.asker")
        url = asker.wait_for_output(r"^ws://\S+")[0]
        broker = bench.broker()
        crowd(bench, url, "none", count)
        crowd(bench, broker.url, broker.tokens["rank"], count)
        end = WebSocketEnd.dial(url, "/ask")
        spent: dict[str, list[float]] = {}

        def told(name: str, words: tuple[str, ...]) -> float:
            before = processor_seconds(broker.process.pid)
            took = command_seconds(broker.home, *words)
            spent.setdefault(name, []).append(1000 * (processor_seconds(broker.process.pid) - before) / count)
            return took

        ways: Mapping[str, Callable[[], float]] = {
            BASELINE: lambda: asked(end),
            "where, by the library": lambda: by_library(broker.home),
            **{name: partial(told, name, words) for name, words in COMMANDS.items()},
        }
        found = interleaved(ROUNDS if count < MORE else 2, ways)
        figures = [
            Figure(name, "s", tuple(times), None if name == BASELINE else BASELINE) for name, times in found.items()
        ]
        for name, costs in spent.items():
            word = name.partition(",")[0]
            figures.append(Figure(f"broker's time for a rank, {word}", "ms", tuple(costs[1:])))
        figures.append(Figure("broker's memory", "MiB", (memory_kib(broker.process.pid) / 1024,)))
        return figures

    return measure


def room() -> int:
    """Return how many descriptors a process may have."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


ROWS = (
    Row("questions", f"questions to {FEWER:,} light ranks of one job, in which one is missing", looks(FEWER)),
    Row("questions-10000", f"questions to {MORE:,} light ranks, the list among them", looks(MORE)),
)
