"""What connected ranks cost the broker: memory, processor time while they are idle, and a hold of many."""

from __future__ import annotations

import time

from benchmarks.bench import PATIENCE, Bench, Row, last_document, memory_kib, processor_seconds
from benchmarks.figures import Figure
from dbg_broker.home.certificate import load_own
from tests.support.processes import Child

RANKS, FIRST = 2000, 200
"""Ranks that are measured, and those that come before them."""

IDLE_SECONDS = 20.0
"""Each idle rank is probed once in this time."""

ROUNDS = 2

HELD, STEP = 1024, 64
"""Ranks of a hold, and the step between those that are chosen."""


def plain_relay(bench: Bench) -> tuple[Child, str]:
    """Start the plainest server of websockets with TLS, and return it and its address."""
    folder = bench.folder / "certificate"
    if not folder.exists():
        folder.mkdir(mode=0o700)
        load_own(folder)
    relay = bench.module("benchmarks.baselines.relay", folder)
    return relay, relay.wait_for_output(r"^wss://\S+")[0]


def each_kib(bench: Bench, pid: int, url: str, token: str) -> float:
    """Return the memory of one connected rank among many, in KiB; the first ones pay for what all share."""
    bench.ranks(url, token, FIRST)
    before = memory_kib(pid)
    bench.ranks(url, token, RANKS, first=FIRST)
    return (memory_kib(pid) - before) / RANKS


def memory(bench: Bench) -> list[Figure]:
    """Measure the memory of an idle rank."""
    relay, url = plain_relay(bench)
    below = each_kib(bench, relay.pid, url, "none")
    broker = bench.broker()
    ours = each_kib(bench, broker.process.pid, broker.url, broker.tokens["rank"])
    return [
        Figure("websockets server, TLS", "KiB", (below,)),
        Figure("broker, TLS", "KiB", (ours,), "websockets server, TLS"),
    ]


def idle(bench: Bench) -> list[Figure]:
    """Measure the share of a core that idle ranks take."""
    broker = bench.broker()
    bench.ranks(broker.url, broker.tokens["rank"], RANKS)
    # The probes of ranks that came at once are still together.
    time.sleep(2)
    shares = []
    for _ in range(ROUNDS):
        before, began = processor_seconds(broker.process.pid), time.monotonic()
        time.sleep(IDLE_SECONDS)
        shares.append(100 * (processor_seconds(broker.process.pid) - before) / (time.monotonic() - began))
    return [Figure(f"{RANKS:,} idle ranks, TLS", "% of a core", tuple(shares))]


def hold(bench: Bench) -> list[Figure]:
    """Have many ranks held for a few, and let them go."""
    broker = bench.broker()
    before = processor_seconds(broker.process.pid)
    crowd = bench.module("tests.support.crowd", "hold", broker.url, broker.tokens["rank"], HELD, STEP)
    if crowd.wait(PATIENCE):
        raise AssertionError(crowd.tail())
    spent = processor_seconds(broker.process.pid) - before
    told = last_document(crowd)
    held = HELD - HELD // STEP
    return [
        Figure("all are let go within", "s", (told["released"],)),
        Figure("messages to a held rank", "", (told["messages"] / held,)),
        Figure("broker's time for a rank", "ms", (1000 * spent / HELD,)),
    ]


ROWS = (
    Row("memory", f"what one of {RANKS:,} idle ranks takes of the broker's memory", memory),
    Row("idle", f"what {RANKS:,} idle ranks take of a core, over {ROUNDS * IDLE_SECONDS:g} s", idle),
    Row("hold", f"{HELD:,} ranks of which {HELD // STEP} are chosen: the others are held, and let go", hold),
)
