"""A stack of one stopped rank, by each face: terminal, library, IDE and agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from mcp import ClientSession

from benchmarks.bench import PATIENCE, Bench, Row
from benchmarks.ends import WebSocketEnd, expected
from benchmarks.figures import Figure
from benchmarks.looks import command_seconds, connected
from benchmarks.pudb import compared
from dbg_wire.codec import encode
from dbg_wire.messages import Action, Answers, Greet, Question, Snapshot, Subscribe
from tests.e2e.test_mcp import agent, call
from tests.support.ide import ide
from tests.support.ranks import start_ranks, wait_until_stopped

ROUNDS, COMMANDS = 20, 5

PROGRAM = """\
import dbg_agent
def deep(levels):
    if levels:
        return deep(levels - 1)
    dbg_agent.set_trace()
deep(10)
"""

BASELINE = "a question on the wire"


def milliseconds(call: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """Return the milliseconds of each of some calls; the first one warms up."""
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - began))
    return times[1:]


def on_the_wire(url: str, token: str) -> list[float]:
    """Ask by messages alone."""
    end = WebSocketEnd.dial(url, "/client", token)
    end.send(encode(Greet(minor=0, release="0.1.0", name="me@login1")))
    end.send(encode(Subscribe(once=True)))
    (rank,) = expected(end, Snapshot).ranks

    def ask() -> None:
        end.send(encode(Question(request=1, keys=(rank.key,), action=Action.WHERE, seconds=PATIENCE)))
        expected(end, Answers)

    return milliseconds(ask)


def by_library(home: Path) -> list[float]:
    """Ask by the library."""
    with connected(home) as broker:
        ranks = broker.job()[0]
        return milliseconds(ranks.where)


def by_ide(home: Path) -> list[float]:
    """Ask as an IDE does."""
    with ide(home) as window:
        window.attach(target="all")
        thread = window.stop_of(0)
        times = milliseconds(lambda: window.stack(thread))
        window.leave()
        return times


async def by_agent(home: Path) -> list[float]:
    """Ask as a coding agent does."""

    async def one(session: ClientSession) -> float:
        began = time.perf_counter()
        told = await call(session, "where", ranks="0")
        if told.startswith("ERROR"):
            raise AssertionError(told)
        return 1000 * (time.perf_counter() - began)

    async with agent(home) as session:
        return [await one(session) for _ in range(ROUNDS + 1)][1:]


def faces(bench: Bench) -> list[Figure]:
    """Ask by each face."""
    broker = bench.broker()
    start_ranks(bench.processes, broker.home, PROGRAM, 1)
    wait_until_stopped(broker.home, 1)
    found = {
        BASELINE: on_the_wire(broker.url, broker.tokens["driver"]),
        "library, Ranks.where()": by_library(broker.home),
        "IDE, stackTrace": by_ide(broker.home),
        "agent, the tool where": asyncio.run(by_agent(broker.home)),
        "terminal, dbg-attach where 0": milliseconds(lambda: command_seconds(broker.home, "where", "0"), COMMANDS),
    }
    return compared(found, "ms")


ROWS = (Row("faces", "the stack of one stopped rank, eleven frames deep, by each face", faces),)
