"""What `slow` takes of a rank's time: the processor time of our threads in ranks with a full flight recorder."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from benchmarks.bench import PATIENCE, Bench, Row
from benchmarks.figures import Figure
from benchmarks.prompt import needs_torch
from tests.support.launchers import torchrun
from tests.support.ranks import attach_command

LOOK_SECONDS, IDLE_SECONDS = 10.0, 5.0
ROUNDS = 3

ENTRIES = 2100
"""Collectives before the loop: more than a recorder keeps."""

LOOP = f"""\
import json
import os
import threading
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
weight, gradients = torch.rand(128, 128), torch.zeros(1000)
for _ in range({ENTRIES}):
    dist.all_reduce(gradients)
threads = [one.native_id for one in threading.enumerate() if one.name.startswith("dbg-agent")]
print(json.dumps({{"pid": os.getpid(), "threads": threads}}) + "\\n", end="", flush=True)
while True:
    for _ in range(20):
        weight = torch.tanh(weight @ weight)
    dist.all_reduce(gradients)
"""


def spent(ranks: list[dict[str, list[int] | int]]) -> float:
    """Return the seconds of processor time that our threads have used in the busiest rank."""
    return max(sum(_of_thread(rank["pid"], thread) for thread in _threads(rank)) for rank in ranks)


def _threads(rank: dict[str, list[int] | int]) -> list[int]:
    threads = rank["threads"]
    return threads if isinstance(threads, list) else []


def _of_thread(pid: object, thread: int) -> float:
    # By the scheduler's count in nanoseconds: ticks of 10 ms would be coarse for 1 % of a few seconds.
    return int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0]) / 1e9


def looked(home: Path) -> float:
    """Have all ranks look; return the seconds of the whole command."""
    began = time.monotonic()
    done = subprocess.run(
        attach_command("slow", "--json", "--for", f"{LOOK_SECONDS:g}", "--timeout", str(PATIENCE)),
        env={**os.environ, "DBG_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    document = json.loads(done.stdout)
    if document["answered"] != document["asked"] or document["groups"][0]["count"] < 1:
        raise AssertionError(f"the ranks have not told of their collectives: {done.stdout}")
    return time.monotonic() - began


def slow(bench: Bench) -> list[Figure]:
    """Measure two ranks while nobody asks, and while they look."""
    needs_torch()
    home, script = bench.broker().home, bench.folder / "train.py"
    script.write_text(LOOP)
    environ = {**os.environ, "DBG_HOME": str(home), "OMP_NUM_THREADS": "1"}
    job = bench.processes.start("loop", torchrun(2, "-m", "dbg_agent", str(script)), env=environ)
    job.wait_for_output(r"(?s)(?:threads.*){2}", PATIENCE)
    ranks = [json.loads(line) for line in job.text().splitlines() if line.startswith("{")]
    looked(home)  # the modules are loaded at the first question
    figures: dict[str, list[float]] = {"nothing": [], "slow": []}
    for _ in range(ROUNDS):
        before, began = spent(ranks), time.monotonic()
        job.ends_within(IDLE_SECONDS)
        figures["nothing"].append(100 * (spent(ranks) - before) / (time.monotonic() - began))
        before = spent(ranks)
        looked(home)
        figures["slow"].append(100 * (spent(ranks) - before) / LOOK_SECONDS)
    return [
        Figure(f"our threads' part of the time, asked: {name}", "%", tuple(values), None)
        for name, values in figures.items()
    ]


TITLE = (
    f"two ranks with a full flight recorder that look at themselves for {LOOK_SECONDS:g} s, in the busiest of them; "
    "at most 1 % is promised"
)
ROWS = (Row("slow", TITLE, slow),)
