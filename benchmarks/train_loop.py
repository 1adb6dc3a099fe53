"""What questions cost a training loop whose ranks, broker and terminal share the machine."""

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

LOOP_SECONDS = 12.0

LOOP = f"""\
import json
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, weight, steps = dist.get_rank(), torch.rand(128, 128), []
gradients = torch.zeros(1000)
print("begins", flush=True)
end = time.monotonic() + {LOOP_SECONDS}
while not gradients[0]:
    began = time.perf_counter()
    for _ in range(20):
        weight = torch.tanh(weight @ weight)
    gradients.fill_(float(rank == 0 and time.monotonic() > end))
    dist.all_reduce(gradients)
    steps.append(1000 * (time.perf_counter() - began))
if rank == 0:
    steps = sorted(steps[100:])
    high = steps[-len(steps) // 1000]
    print(json.dumps({{"median": steps[len(steps) // 2], "high": high, "longest": steps[-1]}}), flush=True)
"""
"""Its first steps, in which the ranks connect, do not count."""


def steps_of_a_loop(bench: Bench, home: Path, script: Path, *words: str) -> dict[str, float]:
    """Run the training loop, typing a command each second, and return what its steps took, in milliseconds."""
    # One thread in each rank, as on a machine with a core for each.
    environ = {**os.environ, "DBG_HOME": str(home), "OMP_NUM_THREADS": "1"}
    job = bench.processes.start("loop", torchrun(2, "-m", "dbg_agent", str(script)), env=environ)
    job.wait_for_output("begins", PATIENCE)
    began = time.monotonic()
    asked = 0
    while words and time.monotonic() < began + LOOP_SECONDS - 2:
        subprocess.run(attach_command(*words), env=environ, capture_output=True, check=False)
        asked += 1
        job.ends_within(max(0.0, began + asked - time.monotonic()))
    job.wait(PATIENCE)
    (told,) = (line for line in job.text().splitlines() if line.startswith("{"))
    steps: dict[str, float] = json.loads(told)
    return steps


def train_loop(bench: Bench) -> list[Figure]:
    """Measure steps while nobody asks, and while a command is typed each second."""
    needs_torch()
    home, script = bench.broker().home, bench.folder / "train.py"
    script.write_text(LOOP)
    # A command takes a core while its interpreter starts: `list` shows how much of the difference that is.
    told = {
        " ".join(words) or "nothing": steps_of_a_loop(bench, home, script, *words)
        for words in ((), ("list",), ("why",))
    }
    kinds = {"median": "median step", "high": "99.9 % of the steps within", "longest": "longest step"}
    figures = []
    for kind, word in kinds.items():
        for name, steps in told.items():
            against = None if name == "nothing" else f"{word}, asked: nothing"
            figures.append(Figure(f"{word}, asked: {name}", "ms", (steps[kind],), against))
    return figures


TITLE = "steps of a training loop of two ranks, each with an all_reduce, while a command is typed each second"
ROWS = (Row("train-loop", TITLE, train_loop),)
