"""Measure `why`: its time over a thousand light ranks, and the longest step of a training loop that is asked."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.broker import running_broker
from tests.support.launchers import torchrun
from tests.support.processes import Child, Processes
from tests.support.ranks import attach_command

ROOT = Path(__file__).parents[1]
RANKS, MISSING = 1000, 11
ROUNDS = 5
LOOP_SECONDS = 20.0

LOOP = f"""\
import json
import sys
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
    told = {{"steps": len(steps), "median": steps[len(steps) // 2], "high": high, "longest": steps[-1]}}
    print(json.dumps(told), flush=True)
"""
"""Its first steps, in which the ranks connect, do not count."""


def typed(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Type a command of dbg-attach, and return what it has printed."""
    environ = {**os.environ, "DBG_HOME": str(home)}
    return subprocess.run(attach_command(*words), env=environ, capture_output=True, text=True, check=False)


def over_light_ranks(processes: Processes, home: Path) -> None:
    """Print how long `why` takes over ranks that answer at once, and what it says."""
    broker = running_broker(processes, home)
    crowd = [sys.executable, "-m", "tests.support.waiting_crowd", broker.url, broker.rendezvous["tokens"]["rank"]]
    ranks = processes.start("crowd", [*crowd, str(RANKS), str(MISSING)], cwd=ROOT)
    ranks.wait_for_output("registered", 120)
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        told = typed(home, "why")
        times.append(time.perf_counter() - began)
    print(
        f"why over {RANKS} light ranks, median of {ROUNDS}: {statistics.median(times):.2f} s, most {max(times):.2f} s"
    )
    print(told.stdout.partition("\n")[0])
    ranks.kill()


def of_a_loop(processes: Processes, home: Path, script: Path, *words: str) -> str:
    """Run the training loop, typing a command each second, and return what its steps took."""
    job: Child = processes.start("loop", torchrun(2, "-m", "dbg_agent", str(script)), env=loop_environment(home))
    job.wait_for_output("begins", 120)
    began = time.monotonic()
    asked = 0
    while words and time.monotonic() < began + LOOP_SECONDS - 2:
        typed(home, *words)
        asked += 1
        job.ends_within(max(0.0, began + asked - time.monotonic()))
    job.wait(120)
    (told,) = (line for line in job.text().splitlines() if line.startswith("{"))
    steps = json.loads(told)
    return (
        f"median {steps['median']:.1f} ms, one in 1000 over {steps['high']:.1f} ms, longest {steps['longest']:.1f} ms"
        f" ({steps['steps']} steps, {asked} commands)"
    )


def loop_environment(home: Path) -> dict[str, str]:
    """Return the environment of the training loop: one thread in each rank, as on a machine with a core for each."""
    return {**os.environ, "DBG_HOME": str(home), "OMP_NUM_THREADS": "1"}


def main() -> None:
    """Print both."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home, script = folder / "dbg", folder / "train.py"
        home.mkdir(mode=0o700)
        script.write_text(LOOP)
        processes = Processes(folder / "logs")
        try:
            over_light_ranks(processes, home)
            if find_spec("torch") is None:
                print("torch is not installed, and the loop is one of torchrun; make test WITH_TORCH=1 installs it")
                return
            # A command takes a core while its interpreter starts: `list` shows how much of the difference that is.
            for words in ((), ("list",), ("why",)):
                asked = f"`dbg-attach {words[0]}` each second" if words else "nobody asks"
                print(f"steps of a training loop of 2 ranks, {asked}: {of_a_loop(processes, home, script, *words)}")
        finally:
            processes.end_all()


if __name__ == "__main__":
    main()
