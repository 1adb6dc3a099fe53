"""A key and its way back: the whole path between two light ends, beside a direct echo and other relays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from benchmarks.bench import PATIENCE, Bench, Row, apart, interleaved
from benchmarks.ends import RelayTypist, TcpTypist, Terminal, Typist
from benchmarks.figures import Figure, quantile
from tests.support.broker import RunningBroker
from tests.support.processes import Child
from tests.unit.broker.peers import registration

ROUNDS, KEYS = 10, 200
IDLE, STREAMS = 1000, 50


Serves = Callable[[Child], Child]
"""What puts a process on the core of those that serve."""


def echo(bench: Bench) -> tuple[Child, int]:
    """Start an echo, and return it and its port."""
    child = bench.module("benchmarks.ends", "tcp")
    return child, int(child.wait_for_output(r"listens at (\d+)")[1])


def direct(bench: Bench, serves: Serves) -> Typist:
    """Return a typist at an echo."""
    child, port = echo(bench)
    serves(child)
    return TcpTypist(port)


def through_socat(bench: Bench, serves: Serves) -> Typist:
    """Return a typist at an echo behind socat."""
    _, port = echo(bench)
    command = ["socat", "-d", "-d", "TCP-LISTEN:0,bind=127.0.0.1,nodelay,fork", f"TCP:127.0.0.1:{port},nodelay"]
    socat = serves(bench.processes.start("socat", command))
    return TcpTypist(int(socat.wait_for_output(r"listening on .*:(\d+)", stream="stderr")[1]))


def through_relay(bench: Bench, serves: Serves) -> Typist:
    """Return a typist at an echo behind the plainest relay of websockets."""
    url = serves(bench.module("benchmarks.baselines.relay")).wait_for_output(r"^wss?://\S+")[0]
    bench.module("benchmarks.ends", "relay", url).wait_for_output("echoes")
    return RelayTypist(url)


def through_broker(bench: Bench, serves: Serves, broker: RunningBroker) -> Typist:
    """Return a typist at a rank that echoes."""
    serves(broker.process)
    start_rank(bench, broker)
    return Terminal(broker.url, broker.tokens["driver"], registration(0).identity.key)


def start_rank(bench: Bench, broker: RunningBroker, number: int = 0) -> None:
    """Start a rank that echoes."""
    bench.module("benchmarks.ends", "rank", broker.url, broker.tokens["rank"], number).wait_for_output("echoes")


def waits(typist: Typist) -> list[float]:
    """Type keys, each as soon as the one before came back; return their times in microseconds."""
    times = []
    for _ in range(KEYS):
        began = time.perf_counter()
        typist.key()
        times.append(1e6 * (time.perf_counter() - began))
    return times


def compared(typists: Mapping[str, Typist]) -> list[Figure]:
    """Return the figures of some typists, each compared with the direct echo."""

    def of(typist: Typist) -> Callable[[], list[float]]:
        return lambda: waits(typist)

    found = interleaved(ROUNDS, {name: of(typist) for name, typist in typists.items()})
    figures = []
    for share, word in ((0.5, "p50"), (0.99, "p99")):
        for name, rounds in found.items():
            against = None if name == "direct echo" else f"direct echo, {word}"
            values = tuple(quantile(times, share) for times in rounds)
            figures.append(Figure(f"{name}, {word}", "µs", values, against))
    return figures


def alone(bench: Bench) -> list[Figure]:
    """Measure keys while nothing else happens."""
    with apart() as serves:
        typists = {"direct echo": direct(bench, serves), "socat": through_socat(bench, serves)}
        typists["websockets relay"] = through_relay(bench, serves)
        typists["broker, TLS"] = through_broker(bench, serves, bench.broker())
        return compared(typists)


def loaded(bench: Bench) -> list[Figure]:
    """Measure keys while others are connected and draw."""
    with apart() as serves:
        broker = bench.broker()
        tokens = broker.tokens
        echoed = {"direct echo": direct(bench, serves), "broker, TLS": through_broker(bench, serves, broker)}
        quiet = compared(echoed)
        bench.ranks(broker.url, tokens["rank"], IDLE)
        idle = compared(echoed)
        streams = bench.module("benchmarks.streams", broker.url, tokens["rank"], tokens["driver"], STREAMS)
        streams.wait_for_output("draw", PATIENCE)
        return [
            *quiet,
            *(beside(figure, f"{IDLE:,} idle ranks") for figure in idle),
            *(beside(figure, f"these and {STREAMS} streams") for figure in compared(echoed)),
        ]


def beside(figure: Figure, others: str) -> Figure:
    """Return a figure that was measured beside others, compared with the direct echo beside them."""
    against = f"{figure.against} beside {others}" if figure.against is not None else None
    return replace(figure, name=f"{figure.name} beside {others}", against=against)


BESIDE = f"a key and its echo alone, beside {IDLE:,} idle ranks, and beside {STREAMS} streams of 50 KiB/s as well"
ROWS = (
    Row("keystroke", "a key and its echo, between two light ends", alone),
    Row("keystroke-loaded-tls", f"{BESIDE}, TLS", loaded),
)
