"""What ``serve --record`` costs a key: its echo through a broker that records, and through one that does not."""

from __future__ import annotations

from functools import partial

from benchmarks.bench import Bench, Row, apart, interleaved
from benchmarks.figures import Figure, quantile
from benchmarks.keys import ROUNDS, through_broker, waits

NAMES = ("without", "with --record")


def record(bench: Bench) -> list[Figure]:
    """Type at both brokers in turn."""
    with apart() as serves:
        casts = str(bench.folder / "casts")
        brokers = [bench.broker("TLS"), bench.broker("TLS", "--record", casts, "--record-input")]
        typists = [through_broker(bench, serves, broker) for broker in brokers]
        ways = {name: partial(waits, typist) for name, typist in zip(NAMES, typists, strict=True)}
        found = interleaved(ROUNDS, ways)
    values = {name: tuple(quantile(times, 0.5) for times in rounds) for name, rounds in found.items()}
    return [Figure(name, "µs", times, None if name == NAMES[0] else NAMES[0]) for name, times in values.items()]


ROWS = (Row("record", "a key and its echo, median of each round, at a broker that records both", record),)
