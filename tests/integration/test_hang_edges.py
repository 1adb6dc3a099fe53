"""Each kind of edge of the graph of waits in a real job: gloo, locks, pipes, files, tasks, processes, stdin, loops.

All jobs are forks of one process that has imported torch; of each the last rank, or some, wait for something else than
the collective in which rank 0 is.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dbg_client.hang.sentences import fits
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, wait_until
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

pytestmark = [pytest.mark.integration, pytest.mark.launcher, pytest.mark.timeout(seconds(240))]

JOBS = """\
import asyncio, concurrent.futures, fcntl, os, queue, subprocess, sys, threading, time, zlib

import filelock
import torch
import torch.distributed as dist
import torch.utils.data
import torch.utils.file_baton

def lock_over_barrier(rank, folder):
    with filelock.FileLock(folder + "/dataset.lock"):
        dist.barrier()

def key_never_set(rank, folder):
    store = dist.FileStore(folder + "/names", 2)
    if rank > 0:
        store.get("run_name")
    dist.barrier()

def group_on_some_ranks(rank, folder):
    if rank == 0:
        dist.new_group()
    dist.barrier()

async def fetch_rollouts(rollouts):
    return await rollouts.get()

async def collect():
    rollouts = asyncio.Queue()
    await asyncio.gather(fetch_rollouts(rollouts), fetch_rollouts(rollouts))

def asyncio_tasks(rank, folder):
    if rank > 0:
        asyncio.run(collect())
    dist.barrier()

def child_reads_fifo(rank, folder):
    if rank > 0:
        os.mkfifo(folder + "/orders")
        subprocess.run(["cat", folder + "/orders"])
    dist.barrier()

def child_fills_pipe(rank, folder):
    if rank > 0:
        child = subprocess.Popen(["seq", "1000000"], stdout=subprocess.PIPE)
        child.wait()
    dist.barrier()

def fills_its_own_pipe(rank, folder):
    if rank > 0:
        _, writing = os.pipe()
        while True:
            os.write(writing, bytes(1000))
    dist.barrier()

def dead_checkpoint_thread(rank, folder):
    group = dist.new_group()
    def checkpoint():
        if rank > 0:
            raise OSError("no space left")
        dist.all_reduce(torch.ones(4), group=group)
    thread = threading.Thread(target=checkpoint, name="checkpoint")
    thread.start()
    if rank == 0:
        thread.join()
    dist.barrier()

class Shards(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.folder = folder
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return open(f"{self.folder}/shard-{index}.bin").read() if index else 0

def worker_reads_fifo(rank, folder):
    if rank > 0:
        os.mkfifo(folder + "/shard-1.bin")
        for batch in torch.utils.data.DataLoader(Shards(folder), batch_size=1, num_workers=2):
            pass
    dist.barrier()

def flock_of_another_program(rank, folder):
    if rank > 0:
        index = open(folder + "/index.cache", "w")
        hold = "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); time.sleep(3600)"
        holder = subprocess.Popen([sys.executable, "-c", hold, index.name], stdout=subprocess.PIPE)
        holder.stdout.readline()
        fcntl.flock(index, fcntl.LOCK_EX)
    dist.barrier()

def stale_baton(rank, folder):
    if rank > 0:
        open(folder + "/lock", "w").close()
        torch.utils.file_baton.FileBaton(folder + "/lock").wait()
    dist.barrier()

def future_of_a_pool(rank, folder):
    if rank > 0:
        pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="tokenize")
        read, _ = os.pipe()
        done = pool.submit(os.read, read, 1)
        done.result()
    dist.barrier()

def dead_producer(rank, folder):
    batches = queue.Queue()
    def produce():
        batches.put(0)
        raise OSError("broken shard")
    if rank > 0:
        threading.Thread(target=produce, name="producer").start()
        for _ in range(2):
            batches.get()
    dist.barrier()

def post_metrics(folder):
    while True:
        try:
            subprocess.run(["false"], check=True)
            return
        except subprocess.CalledProcessError:
            time.sleep(0.3)

def retries(rank, folder):
    if rank > 0:
        post_metrics(folder)
    dist.barrier()

def asks_a_person(rank, folder):
    if rank > 0:
        main, side = os.openpty()
        os.dup2(side, 0)
        sys.stdin = open(0, closefd=False)
        input("overwrite? ")
    dist.barrier()

def computes(rank, folder):
    data = bytes(1 << 30)
    if rank > 0:
        while True:
            zlib.crc32(data)
    dist.barrier()

def leaves_early(rank, folder):
    steps = 3 if rank > 0 else 4
    for step in range(steps):
        dist.all_reduce(torch.ones(4))
    dist.barrier()

def handles_an_error(rank, folder):
    try:
        if rank > 0:
            raise OSError("disk full")
        dist.all_reduce(torch.ones(4))
    except OSError:
        dist.barrier()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    def forward(self, batch, has_labels):
        hidden = self.body(batch)
        return self.head(hidden) if has_labels else hidden

def unused_parameters(rank, folder):
    model = torch.nn.parallel.DistributedDataParallel(Net())
    model(torch.ones(1, 4), rank == 0).sum().backward()
    dist.barrier()

def train(hang, rank, size, folder):
    os.environ.update(DBG_JOB=hang.__name__, RANK=str(rank), WORLD_SIZE=str(size))
    folder = f"{folder}/{hang.__name__}"
    os.makedirs(folder, exist_ok=True)
    import dbg_agent

    dbg_agent.install()
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    dist.barrier()
    if hang is lock_over_barrier and rank > 0:
        while not os.path.exists(folder + "/dataset.lock"):
            time.sleep(0.01)
    hang(rank, folder)

torch.set_num_threads(1)
names = sys.argv[2:]
for name in names:
    for rank in range(2):
        if not os.fork():
            train(globals()[name], rank, 2, sys.argv[1])
            os._exit(0)
os.wait()
"""

IN_WORKER = r"in jobs\.py:\d+ __getitem__ " if Path(sys.executable).with_name("py-spy").exists() else ""
"""Where a worker of a DataLoader is, which py-spy reads."""

REASONS = {
    "key_never_set": r"waits for the key run_name of the FileStore store to be set",
    "asyncio_tasks": r"waits for its task collect, which waits for 2 tasks fetch_rollouts .*",
    "child_reads_fifo": r"waits for the process \d+ \(`cat .*\), which opens the pipe \S+ that.*",
    "child_fills_pipe": r"waits for the process \d+ \(`seq 1000000`\), which waits for it in turn",
    "fills_its_own_pipe": r"writes to a full pipe to this process itself",
    "worker_reads_fifo": rf"waits for DataLoader's worker 1 \(process \d+\), which {IN_WORKER}opens the pipe.*",
    "flock_of_another_program": r"waits for the lock of the file \S+index\.cache, which the process \d+ \(`.*",
    "stale_baton": r"waits until the file \S+/lock is gone \(FileBaton\), made \d+ s ago, open in no process here",
    "future_of_a_pool": r"waits for the result of the future done in thread tokenize_0, which reads a pipe of .*",
    "dead_producer": r"waits for an item of the queue batches of thread producer, which ended by OSError: .*",
    "retries": r"loops in post_metrics.*: .*run, sleep.*",
    "asks_a_person": r"waits for a person to type at its standard input \(/dev/pts/\d+\)",
}
"""Why rank 1 has not come to the barrier in which rank 0 waits."""

OTHERS = {
    "lock_over_barrier": (
        "deadlock",
        r"rank 1 .*waits for the lock of the file \S+dataset\.lock, which rank 0 holds; rank 0 waits for it in .*",
    ),
    "group_on_some_ranks": (
        "order",
        r"rank 0 .*likely waits in new_group of 0-1.*, a group that no other rank has made",
    ),
    "computes": (
        "unknown missing",
        r"rank 1 .* not come to barrier #2 of default: it computes in \S* \(\S+\); .*",
    ),
    "dead_checkpoint_thread": (
        "order",
        r"rank 1's thread checkpoint ended by OSError: no space left .*; rank 0 likely waits for it in all_reduce #1.*",
    ),
    "leaves_early": (
        "order",
        r"rank 1 .* went on to barrier after all_reduce #4 of default, where rank 0 called .* again.*",
    ),
    "unused_parameters": (
        "order",
        r"rank 1 .* barrier .* where rank 0 called all_reduce.*",
    ),
    "handles_an_error": (
        "order",
        r"rank 1 .*called barrier as collective #2 of default while it handles OSError: disk full .* where rank 0 .*",
    ),
}
"""The kind of the verdict on each other job, and its sentence."""


UNUSED = "rank 1: 2 of 4 parameters of its DDP model have no gradient: head.weight, head.bias"


def is_right(name: str, verdict: dict[str, Any]) -> bool:
    """Tell whether a verdict says what it should, in two lines, and as sure as it may."""
    late = r"rank 1(?: \(\S+\))? has not come to barrier #2 of default: it {}; rank 0 waits since .+"
    kind, sentence = OTHERS.get(name) or ("missing", late.format(REASONS.get(name)))
    said = verdict["sentence"]
    is_likely = verdict["certainty"] == "likely"
    is_worded = fits(name, said) and ("likely" in said) is is_likely
    if name == "unused_parameters" and not any(UNUSED in line for line in verdict["evidence"]):
        return False
    return verdict["kind"] in kind.split() and is_worded and re.fullmatch(sentence, said) is not None


def told(home: Path) -> dict[str, dict[str, Any]]:
    """Return the worst verdict on each job, by the job."""
    found: dict[str, dict[str, Any]] = {}
    answer = attach(home, "why", "--json")
    assert answer.stdout, answer.stderr
    for verdict in json.loads(answer.stdout)["verdicts"]:
        found.setdefault(verdict["job"], verdict)
    return found


@needs_torch
@pytest.mark.parametrize("names", [[*REASONS, *OTHERS][at::3] for at in range(3)], ids=["first", "second", "third"])
def test_what_a_rank_waits_for_is_told_up_to_who_could_end_it(
    names: list[str], processes: Processes, home: Path, tmp_path: Path
) -> None:
    running_broker(processes, home)
    script = tmp_path / "jobs.py"
    script.write_text(JOBS)
    environ = {**os.environ, "DBG_HOME": str(home), "OMP_NUM_THREADS": "1"}
    processes.start("jobs", [sys.executable, str(script), str(tmp_path), *names], env=environ)
    wait_until(home, lambda listed: len(listed) == 2 * len(names), "all ranks", timeout=seconds(90))
    until = time.monotonic() + seconds(90)
    verdicts = told(home)
    while not all(name in verdicts and is_right(name, verdicts[name]) for name in names) and time.monotonic() < until:
        verdicts = told(home)
    assert {n: (verdicts[n]["kind"], verdicts[n]["sentence"]) for n in names if not is_right(n, verdicts[n])} == {}
