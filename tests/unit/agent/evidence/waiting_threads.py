"""A program whose threads each wait for one thing, and what a rank has to report of each.

Run as a script it prints the reports, a line of JSON for each thread, once all wait, and ends.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import fcntl
import hashlib
import json
import multiprocessing
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from dbg_client.why.wait_analysis import WaitGraph, thread_node
from dbg_client.why.wait_text import wait_text
from dbg_wire.records.evidence import ThreadWait

SECONDS = 25.0
"""Seconds until the program gives up, and prints what it sees."""

Method = TypeVar("Method", bound=Callable[..., None])

BIN = multiprocessing.get_context("fork")


class Case(NamedTuple):
    """A method that a thread runs, what it waits for, and the circle of threads that it is in, if any."""

    run: Callable[..., object]
    arguments: tuple[object, ...]
    kind: str
    cycle: str


CASES: dict[str, Case] = {}
"""The threads by their names."""


def waits(kind: str, cycle: str = "", **threads: tuple[object, ...]) -> Callable[[Method], Method]:
    """Have a thread of its name run a method, or each of the named threads with its arguments."""

    def register(method: Method) -> Method:
        for name, arguments in (threads or {method.__name__: ()}).items():
            CASES[name] = Case(method, arguments, kind, cycle)
        return method

    return register


class Program:
    """What the threads wait for."""

    def __init__(self) -> None:
        self.a, self.b, self.held = (threading.Lock() for _ in range(3))
        self.r, self.s = threading.RLock(), threading.RLock()
        self.notified, self.semaphore = threading.Condition(), threading.Semaphore(0)
        self.barrier = threading.Barrier(3)
        self.items: queue.Queue[int] = queue.Queue()
        self.full: queue.Queue[int] = queue.Queue(1)
        self.simple: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="in_pool")
        self.processes = concurrent.futures.ProcessPoolExecutor(1, BIN)
        self.pool_of_events = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="of_events")
        self.process_lock, self.messages = BIN.Lock(), BIN.Queue()
        self.worker = BIN.Process(target=signal.pause, daemon=True)
        self.meet = {name: threading.Barrier(count) for name, count in MEETINGS.items()}
        self.threads: dict[str, threading.Thread] = {}
        self.sockets: list[socket.socket] = []
        self.children: list[subprocess.Popen[bytes]] = []
        self.folder = tempfile.mkdtemp()
        self.take(self.held)

    def take(self, lock: threading.Lock) -> None:
        lock.acquire()

    # --------------------------------------------------------------------------------------------------- locks

    @waits("lock", "ab")
    def a_then_b(self) -> None:
        with self.a:
            self.meet["locks"].wait()
            with self.b:
                pass

    @waits("lock", "ab")
    def b_then_a(self) -> None:
        self.b.acquire()
        try:
            self.meet["locks"].wait()
            self.a.acquire()
        finally:
            self.b.release()

    @waits("lock", "rs")
    def r_then_s(self) -> None:
        r = self.r
        with r:
            self.meet["rlocks"].wait()
            with self.s:
                pass

    @waits("lock", "rs")
    def s_then_r(self) -> None:
        with self.s:
            self.meet["rlocks"].wait()
            self.r.acquire(True)

    @waits("lock", "itself")
    def itself(self) -> None:
        lock = threading.Lock()
        with lock, lock:
            pass

    @waits("lock", "joins", join_1=("join_2",), join_2=("join_1",))
    def joins(self, other: str) -> None:
        self.meet["joins"].wait()
        self.threads[other].join()

    @waits("lock")
    def wants_held(self) -> None:
        with self.held:
            pass

    # --------------------------------------------------------------------------------------------- the library

    @waits("lock", notice=())
    def waits_for_notice(self) -> None:
        with self.notified:
            self.notified.wait()

    @waits("data")
    def puts(self) -> None:
        self.full.put(1)
        self.full.put(2)

    @waits("lock")
    def locks_twice(self) -> None:
        self.process_lock.acquire()
        self.process_lock.acquire()

    # ---------------------------------------------------------------------------------------------- the kernel

    @waits("socket")
    def receives(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        self.sockets += [listener, client]
        client.recv(1)

    @waits("socket")
    def accepts(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.sockets.append(listener)
        listener.accept()

    @waits("file")
    def opens(self) -> None:
        path = f"{self.folder}/shard\x1b[2J"
        os.mkfifo(path)
        Path(path).open().close()

    def child(self, *words: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(words, stdout=stdout)
        self.children.append(child)
        return child

    @waits("child")
    def reads_child(self) -> None:
        output = self.child("sleep", "3601", stdout=subprocess.PIPE).stdout
        assert output is not None
        output.read()

    @waits("file")
    def polls(self) -> None:
        path = f"{self.folder}/ready"
        while not os.path.exists(path):  # noqa: PTH110 - what programs do
            time.sleep(3607)

    @waits("file")
    def locks_file(self) -> None:
        path = f"{self.folder}/index"
        holder = "import fcntl, sys; fcntl.flock(f := open(sys.argv[1], 'w'), 2); print(flush=True); sys.stdin.read()"
        child = subprocess.Popen([sys.executable, "-c", holder, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.children.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        with Path(path).open() as index:
            fcntl.flock(index, fcntl.LOCK_EX)

    @waits("child")
    def fills_pipe(self) -> None:
        _, end = os.pipe()
        os.write(end, bytes(10**6))


ONE_CALL: dict[str, tuple[str, Callable[[Program], object]]] = {
    "semaphore": ("lock", lambda program: program.semaphore.acquire()),
    "barrier": ("lock", lambda program: program.barrier.wait()),
    "gets": ("data", lambda program: program.items.get()),
    "gets_simple": ("data", lambda program: program.simple.get()),
    "gets_message": ("data", lambda program: program.messages.get()),
    "joins_process": ("child", lambda program: program.worker.join()),
    "works_until_set": ("lock", lambda program: program.pool_of_events.submit(threading.Event().wait).result()),
    "result_of_process": ("child", lambda program: program.processes.submit(time.sleep, 3600).result()),
    "result": ("lock", lambda program: program.pool.submit(time.sleep, 3600).result()),
    "loop": ("loop", lambda program: asyncio.run(asyncio.sleep(3600))),
    "reads_pipe": ("unknown", lambda program: os.read(os.pipe()[0], 1)),
    "communicates": ("child", lambda program: program.child("sleep", "3602", stdout=subprocess.PIPE).communicate()),
    "waits_for_pid": ("child", lambda program: os.waitpid(program.child("sleep", "3604").pid, 0)),
    "sleeps": ("sleep", lambda program: time.sleep(3605)),
    "waits_for_signal": ("unknown", lambda program: signal.sigwait({signal.SIGUSR1})),
    "computes": ("native", lambda program: hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2**31 - 1)),
}
"""Threads that wait in one call: for what, and how."""

CASES.update({name: Case(call, (), kind, "") for name, (kind, call) in ONE_CALL.items()})

MEETINGS = dict.fromkeys(("locks", "rlocks", "joins"), 2)


def circles_among(waits: Sequence[ThreadWait]) -> dict[int, int]:
    """Return for each thread that waits for itself, perhaps through others, the number of its circle, from 1 on."""
    graph = WaitGraph()
    for wait in waits:
        graph.add(thread_node(0, wait.number))
        for awaited in wait.awaits:
            graph.wait(thread_node(0, wait.number), thread_node(0, awaited))
    circles = [component for component in graph.components() if graph.is_cycle(component)]
    return {node.number: number for number, cycle in enumerate(circles, 1) for node in cycle}


def main() -> None:
    """Have all threads wait, and print the reports of them."""
    from dbg_agent.evidence import locks, threads
    from dbg_agent.frames import stacks
    from dbg_agent.host import descriptors

    vars(stacks)["MAX_THREADS"] = 100
    threads.MAX_SECONDS = locks.MAX_SECONDS = descriptors.MAX_SECONDS = 3600.0
    program = Program()
    program.worker.start()
    # Its process is forked before there are threads and sockets.
    program.processes.submit(os.getpid).result()
    program.threads = {
        name: threading.Thread(target=case.run, args=(program, *case.arguments), name=name, daemon=True)
        for name, case in CASES.items()
    }
    for thread in program.threads.values():
        thread.start()

    def look() -> None:
        until, seen = time.monotonic() + SECONDS, dict[str, tuple[str, str]]()
        while True:
            before, found = seen, threads.threads_seen(None)
            seen = {one.thread: (one.kind.value, wait_text(one.does)) for one in found}
            # The main thread may still be within the start of this one, and others on their way to their last wait.
            waits = looking.name in seen["MainThread"][1] and not any("self.meet" in text for _, text in seen.values())
            right = all(seen.get(name, ("", ""))[0] == case.kind for name, case in CASES.items())
            if (waits and right and seen == before) or time.monotonic() > until:
                break
        circles = circles_among(found)
        for one in found:
            places = [[place.function, place.line] for place in one.frames]
            row = [one.thread, one.kind.value, wait_text(one.does), circles.get(one.number, 0), one.is_main, places]
            sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()

    looking = threading.Thread(target=look, name="dbg-agent-look")
    looking.start()
    looking.join()
    # A thread that writes to a child sees it end, and may fail before this process has ended.
    threading.excepthook = lambda _failed: None
    for child in program.children:
        child.kill()
    for process in (program.worker, *multiprocessing.active_children()):
        process.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
