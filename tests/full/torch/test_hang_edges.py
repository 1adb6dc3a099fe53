"""Each kind of edge of the graph of waits in a real job: gloo, locks, pipes, files, tasks, processes, stdin, loops.

All jobs are forks of one process that has imported torch; of each the last rank, or some, wait for something else than
the collective in which rank 0 is. Some run here; ``tests/unit/client/hang/cases`` has what their ranks told.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, wait_until
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

pytestmark = [pytest.mark.timeout(seconds(240)), needs_torch]

CASES = Path(__file__).parents[2] / "unit/client/hang/cases"
"""Evidence of all jobs, as it was recorded, and what is to be decided of each."""

JOBS = """\
import asyncio, concurrent.futures, fcntl, multiprocessing, os, pdb, queue, signal, subprocess, sys, threading, time
import urllib.request

import filelock
import numpy
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

async def roll_out(limit):
    async with limit:
        await limit.acquire()

async def collect():
    rollouts = asyncio.Queue()
    await asyncio.gather(fetch_rollouts(rollouts), fetch_rollouts(rollouts))

async def limited():
    limit = asyncio.Semaphore(1)
    await asyncio.gather(roll_out(limit), roll_out(limit))

def asyncio_semaphore(rank, folder):
    if rank > 0:
        asyncio.run(limited())
    dist.barrier()

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

def child_left_its_pipe(rank, folder):
    if rank > 0:
        subprocess.run("sleep 3600 & echo converted", shell=True, capture_output=True)
    dist.barrier()

def put_a_lot(rollouts):
    rollouts.put(bytes(1 << 20))

def child_has_put_into_a_queue(rank, folder):
    if rank > 0:
        rollouts = multiprocessing.get_context("fork").Queue()
        child = multiprocessing.get_context("fork").Process(target=put_a_lot, args=(rollouts,))
        child.start()
        child.join()
    dist.barrier()

def dies(shard):
    os._exit(1)

def pool_lost_its_processes(rank, folder):
    if rank > 0:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.map(dies, range(2))
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

class Cached(torch.utils.data.Dataset):
    def __init__(self, lock):
        self.lock = lock
    def __len__(self):
        return 4
    def __getitem__(self, index):
        with self.lock:
            return index

def worker_was_forked_with_a_held_lock(rank, folder):
    if rank > 0:
        lock, held, release = threading.Lock(), threading.Event(), threading.Event()
        def build_index():
            with lock:
                held.set()
                release.wait()
        threading.Thread(target=build_index, daemon=True).start()
        held.wait()
        batches = iter(torch.utils.data.DataLoader(Cached(lock), num_workers=1))
        release.set()
        next(batches)
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

def pool_waits_for_itself(rank, folder):
    if rank > 0:
        pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="tokenize")
        def tokenize():
            return pool.submit(len, "text").result()
        pool.submit(tokenize).result()
    dist.barrier()

def lock_in_a_signal_handler(rank, folder):
    if rank > 0:
        log_lock = threading.Lock()
        def log(*_):
            with log_lock:
                pass
        signal.signal(signal.SIGALRM, log)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with log_lock:
            while True:
                sum(range(1000))
    dist.barrier()

def barrier_in_a_signal_handler(rank, folder):
    def save(*_):
        dist.barrier()
    signal.signal(signal.SIGUSR1, save)
    if rank > 0:
        os.kill(os.getpid(), signal.SIGUSR1)
    for step in range(3):
        dist.all_reduce(torch.ones(4))

def receives_later(rank, folder):
    if rank > 0:
        work = dist.irecv(torch.zeros(4), src=0)
        work.wait()
    dist.barrier()

def counts_in_the_store(rank, folder):
    store = dist.FileStore(folder + "/names", 2)
    if rank > 0:
        while store.add("ready", 0) < 2:
            time.sleep(0.2)
    dist.barrier()

def process_of_a_pool(rank, folder):
    if rank > 0:
        os.mkfifo(folder + "/shard")
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
            pool.submit(open, folder + "/shard").result()
    dist.barrier()

async def serve_and_fetch():
    async def serve(reader, writer):
        await asyncio.sleep(3600)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    replies, _ = await asyncio.open_connection(*server.sockets[0].getsockname())
    await replies.readline()

def asyncio_main_task(rank, folder):
    if rank > 0:
        asyncio.run(serve_and_fetch())
    dist.barrier()

def thread_outlives_the_program(rank, folder):
    if rank > 0:
        threading.Thread(target=threading.Event().wait, name="heartbeat").start()
        sys.exit()
    dist.barrier()

def dead_consumer(rank, folder):
    batches = queue.Queue(1)
    def upload():
        batches.get()
        raise ValueError("bad batch")
    if rank > 0:
        threading.Thread(target=upload, name="uploader").start()
        while True:
            batches.put(0)
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
            urllib.request.urlopen("http://127.0.0.1:9/metrics", timeout=5)
            return
        except OSError:
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

def in_pdb(rank, folder):
    if rank > 0:
        main, side = os.openpty()
        os.dup2(side, 0)
        sys.stdin = open(0, closefd=False)
        pdb.Pdb(stdout=open(os.devnull, "w")).set_trace()
    dist.barrier()

def long_save(rank, folder):
    model = torch.zeros(1 << 26)
    if rank > 0:
        while True:
            torch.save(model, "/dev/null")
    dist.barrier()

def numpy_big_op(rank, folder):
    if rank > 0:
        counts = (numpy.arange(1 << 24) * 7919 % 251).astype(object)
        while True:
            numpy.sort(counts)
    dist.barrier()

def exits_with_its_sibling(rank, folder):
    if rank > 0:
        time.sleep(0.5)
        os._exit(0)
    try:
        dist.barrier()
    except RuntimeError:
        threading.Event().wait()

def leaves_early(rank, folder):
    steps = 3 if rank > 0 else 4
    for step in range(steps):
        dist.all_reduce(torch.ones(4))
    dist.barrier()

def other_roots(rank, folder):
    dist.broadcast_object_list([rank], src=rank)
    dist.barrier()

def crossed_groups(rank, folder):
    one, two = dist.new_group(), dist.new_group()
    dist.all_reduce(torch.ones(4), group=one if rank == 0 else two)
    dist.barrier()

def handles_an_error(rank, folder):
    try:
        if rank > 0:
            raise OSError("disk full")
        dist.all_reduce(torch.ones(4))
    except OSError:
        dist.barrier()

def keeps_an_error(rank, folder):
    try:
        if rank > 0:
            raise OSError("disk full")
        dist.all_reduce(torch.ones(4))
    except OSError as error:
        failure = error
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
            sys.exit()
os.wait()
"""

LIVE = ("retries", "worker_reads_fifo", "leaves_early")
"""Jobs that run here: a loop that several looks show, a process of a rank, and code that is read."""


def expected(name: str) -> dict[str, Any]:
    """Return what is to be decided of a job."""
    found: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text())
    del found["evidence"]
    return found


def told(home: Path) -> dict[str, dict[str, Any]]:
    """Return the worst verdict on each job, by the job."""
    found: dict[str, dict[str, Any]] = {}
    answer = attach(home, "why", "--json")
    assert answer.stdout, answer.stderr
    for verdict in json.loads(answer.stdout)["verdicts"]:
        decided = {name: verdict[name] for name in ("kind", "cause", "ranks", "certainty")}
        found.setdefault(verdict["job"], decided)
    return found


def test_what_a_rank_waits_for_is_told_up_to_who_could_end_it(processes: Processes, home: Path, tmp_path: Path) -> None:
    running_broker(processes, home)
    script = tmp_path / "jobs.py"
    script.write_text(JOBS)
    environ = {**os.environ, "DBG_HOME": str(home), "OMP_NUM_THREADS": "1"}
    processes.start("jobs", [sys.executable, str(script), str(tmp_path), *LIVE], env=environ)
    everybody = 2 * len(LIVE)
    wait_until(home, lambda listed: len(listed) == everybody, "all ranks", listing=("--all",), timeout=seconds(90))

    wanted = {name: expected(name) for name in LIVE}
    until = time.monotonic() + seconds(60)
    while (found := told(home)) != wanted and time.monotonic() < until:
        time.sleep(0.5)
    assert found == wanted
