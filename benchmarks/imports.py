"""What taking part costs a program that is not stopped: imports, a start, memory, and stops that are not reached."""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import timeit
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import dbg_agent
from benchmarks.bench import Bench, Row, interleaved, memory_kib
from benchmarks.figures import Figure
from benchmarks.pudb import compared
from benchmarks.starts import timed
from dbg_agent.breakpoints import startup_stops
from dbg_agent.program import entry
from dbg_dial.home import STOP_AT
from tests.support.ranks import start_ranks, wait_until_states

ROUNDS, RANKS = 9, 3

LINE = Path(__file__).parents[1] / "agent/dbg_broker_autostart.pth"
LOOP = """\
def train(steps):
    total = 0
    for step in range(steps):
        total += step * step % 7
    return total
"""
STEPS = 5_000

RANK_PROGRAM = """\
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
if "LOADS_TORCH" in os.environ:
    import torch.distributed
before = len(sys.modules)
if "INSTALLS" in os.environ:
    import dbg_agent
    dbg_agent.install()
print("runs", flush=True)
signal.sigwait({signal.SIGUSR1})
import json
ours = sum(name.partition(".")[0] in {"dbg_agent", "dbg_wire", "dbg_dial"} for name in sys.modules)
print(json.dumps({"modules": len(sys.modules) - before, "ours": ours}), flush=True)
signal.sigwait({signal.SIGUSR1})
"""


def import_agent(bench: Bench) -> list[Figure]:
    """Measure what an import, or being a rank, adds to an interpreter's start and end."""
    script = bench.folder / "empty.py"
    script.write_text("")
    env = {**os.environ, "DBG_HOME": str(bench.folder)}
    command = (sys.executable, str(script))
    stop = {"DBG_AUTOSTART": "1", "DBG_STOP_AT": "empty.py:1"}
    ways = {
        "an empty script": timed(command, env),
        "import dbg_agent": timed((sys.executable, "-c", "import dbg_agent"), env),
        "a rank's child": timed(command, {**env, "DBG_AUTOSTART": "rank:1:none"}),
        "a rank by DBG_AUTOSTART": timed(command, {**env, "DBG_AUTOSTART": "1"}),
        "the same with a stop": timed(command, {**env, **stop}),
    }
    text = LINE.read_text()
    line = tuple(1000 * took for took in timeit.repeat(lambda: exec(text, {}), number=1000, repeat=5))  # noqa: S102
    return [
        *compared(interleaved(ROUNDS, ways), "ms"),
        Figure("the line in site-packages, variable unset", "µs", line),
    ]


def running_rank(bench: Bench, *, installs: bool, with_torch: bool = False) -> tuple[int, dict[str, int]]:
    """Return the memory in KiB of a program that runs, and the modules that it has loaded."""
    broker = bench.broker()
    env = {"INSTALLS": "1"} if installs else {}
    if with_torch:
        env["LOADS_TORCH"] = "1"
    (rank,) = start_ranks(bench.processes, broker.home, RANK_PROGRAM, 1, env=env)
    rank.wait_for_output("runs")
    if installs:
        wait_until_states(broker.home, {0: "running"})
    memory = memory_kib(rank.pid)
    rank.signal(signal.SIGUSR1)
    told: dict[str, int] = json.loads(rank.wait_for_output(r"^\{.*\}$")[0])
    bench.processes.end_all()
    return memory, told


def rank(bench: Bench) -> list[Figure]:
    """Measure a rank that runs, with and without install()."""
    ways = {
        "without install()": lambda: running_rank(bench, installs=False),
        "with install()": lambda: running_rank(bench, installs=True),
    }
    found = interleaved(RANKS, ways)
    memory = {name: [kib / 1024 for kib, _ in rounds] for name, rounds in found.items()}
    without, with_it = memory.values()
    modules = [told for _, told in found["with install()"]]
    beside_torch = []
    if find_spec("torch") is not None:
        # Most of what install() loads, such as asyncio and TLS, a program with torch has loaded itself.
        alone, installed = (running_rank(bench, installs=installs, with_torch=True)[0] for installs in (False, True))
        beside_torch = [Figure("install() adds to a program with torch", "MiB", ((installed - alone) / 1024,))]
    return [
        *compared(memory, "MiB"),
        Figure("install() adds", "MiB", (statistics.median(with_it) - statistics.median(without),)),
        *beside_torch,
        Figure("modules that install() has loaded", "", tuple(told["modules"] for told in modules)),
        Figure("modules of ours among them", "", tuple(told["ours"] for told in modules)),
    ]


def loop_ns(name: str) -> float:
    """Return the nanoseconds of a turn of the loop in a module of this name, which may have stops."""
    sys.modules.pop(name, None)
    train = import_module(name).train
    return timeit.timeit(lambda: train(STEPS), number=1) * 1e9 / STEPS


def stops_not_reached(bench: Bench) -> list[Figure]:
    """Measure what a stop in or behind a loop costs each turn while nothing stops there."""
    # The stop behind the loop is at its `return`, and has a false condition, too.
    stops = {
        "no stop": None,
        "a stop behind the loop": "5, step == -1",
        "a false condition in it, step == -1": "4, step == -1",
        "a false condition in it, rank == -1": "4, rank == -1",
    }
    names = {way: f"bench_loop_{number}" for number, way in enumerate(stops)}
    for name in names.values():
        (bench.folder / f"{name}.py").write_text(LOOP)
    typed = (f"{bench.folder}/{names[way]}.py:{stop}" for way, stop in stops.items() if stop is not None)
    sys.path.insert(0, str(bench.folder))
    startup_stops.start(
        {STOP_AT: "\n".join(typed)}, is_rank=False, load=lambda: entry, failed=dbg_agent.warn_and_continue
    )
    ways = {way: partial(loop_ns, name) for way, name in names.items()}
    return compared(interleaved(ROUNDS, ways), "ns")


ROWS = (
    Row("import", "what taking part adds to the start and end of a program", import_agent),
    Row("rank", "a program that runs, with and without install()", rank),
    Row("stop-at", "one turn of a loop with a stop that is not reached", stops_not_reached),
)
