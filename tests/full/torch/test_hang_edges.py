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

from dbg_client.hang.fitting import fits
from tests.conftest import OpenTerminal
from tests.support.broker import running_broker
from tests.support.processes import Processes
from tests.support.ranks import attach, attach_command, wait_until
from tests.support.requirements import needs_torch
from tests.support.time_unit import seconds

pytestmark = pytest.mark.timeout(seconds(240))

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

AT_ITS_END = r"(?:has ended but for a Queue that nobody reads|.*waits for a lock or a thread)"
"""What a process does at its end that has put something into a queue: py-spy, which may be missing, knows more."""

REASONS = {
    "key_never_set": r"waits for the key run_name of the FileStore store to be set",
    "asyncio_semaphore": r"waits for .*2 tasks roll_out, one of which waits for the semaphore limit.*",
    "child_left_its_pipe": r"reads a pipe that the process \d+ has left to the process \d+.*, which sleeps",
    "child_has_put_into_a_queue": rf"waits for the end of the process \d+.*, which {AT_ITS_END}",
    "pool_lost_its_processes": r"waits for a result of a pool, 2 of whose 2 processes have ended and been replaced",
    "worker_was_forked_with_a_held_lock": r"waits for DataLoader's worker 0.*, which .*waits for a lock or a thread",
    "pool_waits_for_itself": r"has a deadlock: thread tokenize_0 waits for work for which its pool has no free thread",
    "lock_in_a_signal_handler": r"waits for the lock log_lock that this thread holds already.*, and so for itself",
    "receives_later": r"is in work\.wait, of a send, receive or collective that it has begun",
    "counts_in_the_store": r"loops in counts_in_the_store \(jobs\.py\) for up to \d+ s: add, sleep",
    "process_of_a_pool": r"waits for the future in the process \d+.*, which opens the pipe \S+ that nobody writes to",
    "asyncio_main_task": r"waits for its task serve_and_fetch, which reads the stream replies \(jobs\.py:\d+\)",
    "thread_outlives_the_program": r"has ended its program but for thread heartbeat, which waits for the event.*",
    "dead_consumer": r"waits for room in the queue batches of thread uploader, which ended by ValueError: .*",
    "numpy_big_op": r"computes in C code for \d+ s \(numpy_big_op, jobs\.py:\d+\)",
    "asyncio_tasks": r"waits for .*2 tasks fetch_rollouts, each of which waits for an item of the queue rollouts.*",
    "child_reads_fifo": r"waits for the process \d+.*, which opens the pipe \S+ that nobody writes to",
    "child_fills_pipe": r"waits for the process \d+ \(`seq 1000000`\), which waits for it in turn",
    "fills_its_own_pipe": r"writes to a full pipe to this process itself",
    "worker_reads_fifo": r"waits for DataLoader's worker 1.*, which .*opens the pipe \S+ that nobody writes to",
    "flock_of_another_program": r"waits for the lock of the file \S+index\.cache, which the process \d+.* holds, .*",
    "stale_baton": r"waits until the file \S+/lock is gone \(FileBaton\), made \d+ s ago, open in no process here",
    "future_of_a_pool": r"waits for the result of the future done in thread tokenize_0, which reads a pipe of .*",
    "dead_producer": r"waits for an item of the queue batches of thread producer, which ended by OSError: .*",
    "retries": r"loops in post_metrics \(jobs\.py\) for up to \d+ s: urlopen, sleep",
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
    "long_save": (
        "unknown missing",
        r"rank 1 .* not come to barrier #2 of default: it computes in \S+ \(\S+\).*",
    ),
    "in_pdb": (
        "missing",
        r"rank 1 .*stands in pdb \(jobs\.py:\d+\), and waits for a person to type; 1 rank waits for it in .*",
    ),
    "exits_with_its_sibling": (
        "dead",
        r"rank 1 .*ended by itself .* ago with status 0, without a traceback \(as by os\._exit\).*",
    ),
    "other_roots": (
        "mismatch",
        r"rank 1 .*passed root 1 to broadcast #2 of default, where rank 0 passed root 0.*",
    ),
    "crossed_groups": (
        "order",
        r"rank 0 waits in all_reduce #1 of group \d for rank 1, which waits in all_reduce #1 of group \d for rank 0.*",
    ),
    "barrier_in_a_signal_handler": (
        "order",
        r"rank 1 .*called barrier as collective #2 of default while it handles the signal SIGUSR1 in save .*",
    ),
    "dead_checkpoint_thread": (
        "order",
        r"rank 1's thread checkpoint ended by OSError: no space left .*; rank 0 likely waits for it in all_reduce #1.*",
    ),
    "leaves_early": (
        "order",
        r"rank 1 .*left the loop at jobs\.py:\d+ early, and went on to barrier after all_reduce #4 .* all_reduce #5.*",
    ),
    "unused_parameters": (
        "order",
        r"rank 1 .* barrier .* where rank 0 called all_reduce.*",
    ),
    "keeps_an_error": (
        "order",
        r"rank 1 .*called barrier as collective #2 of default, where rank 0 called all_reduce.*",
    ),
    "handles_an_error": (
        "order",
        r"rank 1 .*called barrier as collective #2 of default while it handles OSError: disk full .* where rank 0 .*",
    ),
}
"""The kind of the verdict on each other job, and its sentence."""


COMPUTES = ("long_save", "numpy_big_op")
"""Jobs of which one rank computes, so that the host's load and the time decide whether that is a hang."""

EVIDENCE = {
    "unused_parameters": "rank 1: 2 of 4 parameters of its DDP model have no gradient: head.weight, head.bias",
    "keeps_an_error": "rank 1: keeps OSError: disk full (jobs.py:",
}
"""What a line of the evidence of some of these jobs begins with."""


def is_right(name: str, verdict: dict[str, Any]) -> bool:
    """Tell whether a verdict says what it should, in two lines, and as sure as it may."""
    late = r"rank 1(?: \(\S+\))? has (?:likely )?not come to barrier #2 of default: it {}; rank 0 waits since .+"
    kind, sentence = OTHERS.get(name) or ("missing", late.format(REASONS.get(name)))
    if not verdict:
        return False
    said = verdict["sentence"]
    is_likely = verdict["certainty"] == "likely"
    is_worded = fits(name, said) and ("likely" in said) is is_likely
    # What the guard says of a rank that can't answer is no record of who has come.
    is_worded = is_worded and (is_likely is (name == "numpy_big_op") or name not in REASONS)
    if not any(line.startswith(EVIDENCE.get(name, "")) for line in verdict["evidence"]):
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


def shown(sentence: str) -> str:
    """Return a sentence without its times, which go on."""
    return re.sub(r"\d+ (?:s|min)\b", "TIME", sentence).replace("TIME TIME", "TIME")


@needs_torch
@pytest.mark.parametrize("part", range(4))
def test_what_a_rank_waits_for_is_told_up_to_who_could_end_it(
    part: int, processes: Processes, home: Path, tmp_path: Path, open_terminal: OpenTerminal
) -> None:
    names = [*REASONS, *OTHERS][part::4]
    running_broker(processes, home)
    script = tmp_path / "jobs.py"
    script.write_text(JOBS)
    environ = {**os.environ, "DBG_HOME": str(home), "OMP_NUM_THREADS": "1"}
    processes.start("jobs", [sys.executable, str(script), str(tmp_path), *names], env=environ)
    everybody = 2 * len(names)
    wait_until(home, lambda listed: len(listed) == everybody, "all ranks", listing=("--all",), timeout=seconds(90))

    until = time.monotonic() + seconds(90)
    verdicts = told(home)
    while not all(is_right(name, verdicts.get(name, {})) for name in names) and time.monotonic() < until:
        verdicts = told(home)
    wrong = [verdicts.get(name, {"job": name}) for name in names if not is_right(name, verdicts.get(name, {}))]
    assert not wrong, json.dumps([{**one, "evidence": []} for one in wrong], indent=1)
    # Asked once more, and by a person in a narrow terminal, it is the same.
    again = told(home)
    steady = [name for name in names if name not in COMPUTES]
    assert {n: again[n]["kind"] for n in steady} == {n: verdicts[n]["kind"] for n in steady}
    name = steady[0]
    terminal = open_terminal(attach_command("why", f"{name}/all", "--no-pager"), rows=50)
    sentence = shown(again[name]["sentence"])
    terminal.wait_for(lambda seen: sentence in shown(" ".join(line.strip() for line in seen.screen)))
    assert terminal.exit_status() == 1
