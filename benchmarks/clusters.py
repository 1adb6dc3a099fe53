"""Three brokers as one: keys to ranks of each; ranks that come, and go to the others when theirs ends; tokens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench import PATIENCE, Bench, Row, Unmeasurable, interleaved
from benchmarks.ends import WebSocketEnd
from benchmarks.figures import Figure, quantile
from benchmarks.keys import KEYS, start_rank
from dbg_client.core.brokers import Brokers as Link
from dbg_dial.find import DiscoveryOptions, find_broker
from dbg_wire.codec import Input, Output, encode
from dbg_wire.messages import Greet, Seat, Snapshot
from tests.support.broker import RunningBroker
from tests.support.cluster import Brokers, admits
from tests.support.nats_servers import HAS_NATS, NatsServers
from tests.support.processes import Child
from tests.unit.broker.peers import attach, registration

BROKERS, RANKS, ROUNDS, KEY_ROUNDS = 3, 1500, 3, 20


def arrival(crowd: Child, count: int) -> dict[str, Any]:
    """Wait until all ranks of a crowd are there for the ``count``-th time, and return what it tells of that."""
    told = crowd.wait_for_output(rf"(?:^\{{.*\}}\s+){{{count}}}", PATIENCE)[0]
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


async def key_waits(home: Path, number: int) -> float:
    """Return the median of the microseconds that keys of a program of this home take to a rank and back."""
    link = Link(
        lambda opening: find_broker(
            DiscoveryOptions(role="driver", argument_name="--broker", opening=opening), None, {"DBG_HOME": str(home)}
        ),
        "bench",
        PATIENCE,
    )

    async def expected(kind: type[Any]) -> Any:
        while not isinstance(event := await link.next(), kind):
            pass
        return event

    await link.open()
    await expected(Snapshot)
    link.send(attach(registration(number).identity.key))
    generation = (await expected(Seat)).generation
    waits = []
    for typed in range(KEYS):
        began = time.perf_counter()
        link.send(Input(1, 1, generation, typed, b"n"))
        await expected(Output)
        waits.append(1e6 * (time.perf_counter() - began))
    await link.close()
    return quantile(waits, 0.5)


def typed_at(bench: Bench, brokers: Brokers) -> list[Figure]:
    """Return what keys cost to a rank of a home's broker, and to one of another broker."""
    names = (
        "a key and its echo, p50: a rank of the home's broker",
        "a key and its echo, p50: a rank of another broker",
    )
    for number in range(2):
        start_rank(bench, brokers[number], number)
    home = brokers.homes[0]
    found = interleaved(KEY_ROUNDS, {name: partial(_key_wait, home, n) for n, name in enumerate(names)})
    own, other = (tuple(found[name]) for name in names)
    return [Figure(names[0], "µs", own), Figure(names[1], "µs", other, against=names[0])]


def _key_wait(home: Path, number: int) -> float:
    return asyncio.run(key_waits(home, number))


def revoked(brokers: Brokers, number: int) -> float:
    """Return the seconds from the command that revokes a token to the end of the last terminal, one at each broker."""
    name, first = f"bench{number}", brokers[0]
    made = _token(first, "--role", "watcher", "--name", name)
    token = made.communicate()[0].strip()
    for broker in brokers[1:]:
        brokers.until(lambda broker=broker: admits(broker, token))  # type: ignore[misc]
    ends = [WebSocketEnd.dial(broker.url, "/client", token) for broker in brokers]
    for end in ends:
        end.send(encode(Greet(minor=0, release="0.1.0", name=name)))
        end.receive()
    began = time.perf_counter()
    revoking = _token(first, "--revoke", name)
    for end in ends:
        with contextlib.suppress(ConnectionError):
            while True:
                end.receive()
    seconds = time.perf_counter() - began
    revoking.communicate()
    return seconds


def _token(broker: RunningBroker, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dbg_broker", "token", *words]
    return subprocess.Popen(
        command, env=broker.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def measure(bench: Bench) -> list[Figure]:
    """Measure all of it with one cluster."""
    if not HAS_NATS:
        raise Unmeasurable("needs nats-server")
    nats = NatsServers(bench.processes, bench.folder)
    nats.start()
    brokers = Brokers(bench.processes, nats, bench.folder, bench.folder / "tokens")
    for _ in range(BROKERS):
        brokers.add()
    keys = typed_at(bench, brokers)
    ends = tuple(revoked(brokers, number) for number in range(ROUNDS))
    urls = ",".join(broker.url for broker in brokers)
    crowd = bench.module("benchmarks.light_ranks", urls, brokers[0].tokens["rank"], RANKS, 0, RANKS)
    came = arrival(crowd, 1)
    moved: dict[signal.Signals, list[float]] = {signal.SIGKILL: [], signal.SIGTERM: []}
    drained = []
    for number in range(2 * ROUNDS):
        how, broker = list(moved)[number % 2], brokers[number % BROKERS]
        began = time.perf_counter()
        broker.process.signal(how)
        broker.process.wait()
        if how is signal.SIGTERM:
            drained.append(time.perf_counter() - began)
        moved[how].append(arrival(crowd, number + 2)["seconds"])
        brokers.restart(broker)
    timed_out = sum(count for name, count in came.items() if name.startswith("timed out"))
    return [
        *keys,
        Figure(f"{RANKS:,} ranks come at once: all are there", "s", (came["seconds"],)),
        Figure("attempts of these that ran into a time-out", "attempts", (float(timed_out),)),
        Figure("a broker is killed: all its ranks are with the others", "s", tuple(moved[signal.SIGKILL])),
        Figure("a broker is told to end: it has drained and ended", "s", tuple(drained)),
        Figure("a broker is told to end: all its ranks are with the others", "s", tuple(moved[signal.SIGTERM])),
        Figure("a token is revoked: its terminals at all brokers have ended, from the command on", "s", ends),
    ]


ROWS = (Row("cluster", f"{RANKS:,} light ranks at {BROKERS} brokers, TLS, over three servers of NATS", measure),)
