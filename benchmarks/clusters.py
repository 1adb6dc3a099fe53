"""Three brokers as one: how long ranks take to come, and to be with the others when theirs ends; tokens that end."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from typing import Any

from benchmarks.bench import PATIENCE, Bench, Row, Unmeasurable
from benchmarks.ends import WebSocketEnd
from benchmarks.figures import Figure
from dbg_wire.codec import encode
from dbg_wire.messages import Greet
from tests.support.broker import RunningBroker
from tests.support.cluster import Brokers
from tests.support.nats_servers import HAS_NATS, NatsServers
from tests.support.processes import Child

BROKERS, RANKS, ROUNDS = 3, 1500, 3


def arrival(crowd: Child, count: int) -> dict[str, Any]:
    """Wait until all ranks of a crowd are there for the ``count``-th time, and return what it tells of that."""
    told = crowd.wait_for_output(rf"(?:^\{{.*\}}\s+){{{count}}}", PATIENCE)[0]
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def revoked(brokers: Brokers, number: int) -> float:
    """Return the seconds from the command that revokes a token to the end of the last terminal, one at each broker."""
    name, first = f"bench{number}", brokers[0]
    made = _token(first, "--role", "watcher", "--name", name)
    token = made.communicate()[0].strip()
    for broker in brokers[1:]:
        broker.process.wait_for_output(f"other brokers have issued {name}", stream="stderr")
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
        Figure(f"{RANKS:,} ranks come at once: all are there", "s", (came["seconds"],)),
        Figure("attempts of these that ran into a time-out", "attempts", (float(timed_out),)),
        Figure("a broker is killed: all its ranks are with the others", "s", tuple(moved[signal.SIGKILL])),
        Figure("a broker is told to end: it has drained and ended", "s", tuple(drained)),
        Figure("a broker is told to end: all its ranks are with the others", "s", tuple(moved[signal.SIGTERM])),
        Figure("a token is revoked: its terminals at all brokers have ended, from the command on", "s", ends),
    ]


ROWS = (Row("cluster", f"{RANKS:,} light ranks at {BROKERS} brokers, TLS, over three servers of NATS", measure),)
