"""A program whose threads each wait for one thing, and what a rank has to tell of each.

Run as a script it prints what is told, a line of JSON for each thread, once all wait, and ends.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import fcntl
import hashlib
import json
import logging
import multiprocessing
import os
import queue
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dbg_client.hang.graph import WaitGraph, thread_node
from dbg_wire.records.evidence import ThreadWait

SECONDS = 25.0
"""Seconds until the program gives up, and prints what it sees."""

BIN = multiprocessing.get_context("fork")


class Case(NamedTuple):
    """A thread's function, what is told of it, and the circle of threads that it is in, if any."""

    run: Callable[[], object]
    kind: str
    text: str
    circle: str = ""


class OwnLock:
    """A lock of a program, around one of Python's."""

    def __init__(self) -> None:
        self.inner = threading.Lock()

    def acquire(self) -> None:
        self.inner.acquire()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.inner.release()


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Program:
    """What the threads wait for."""

    of_class = threading.Lock()

    def __init__(self) -> None:
        self.a, self.b, self.held, self.outer = (threading.Lock() for _ in range(4))
        self.r, self.s = threading.RLock(), threading.RLock()
        self.three = [threading.Lock() for _ in range(3)]
        self.timed = {"x": threading.Lock(), "y": threading.Lock()}
        self.slotted, self.own, self.inside = Slotted(), OwnLock(), threading.Lock()
        self.condition = threading.Condition(threading.Lock())
        self.notified, self.event, self.semaphore = threading.Condition(), threading.Event(), threading.Semaphore(0)
        self.barrier = threading.Barrier(3)
        self.items: queue.Queue[int] = queue.Queue()
        self.full: queue.Queue[int] = queue.Queue(1)
        self.simple: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="in_pool")
        self.processes = concurrent.futures.ProcessPoolExecutor(1, BIN)
        self.pool_of_events = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="of_events")
        self.handler = logging.StreamHandler()
        self.process_lock, self.messages = BIN.Lock(), BIN.Queue()
        self.worker = BIN.Process(target=signal.pause, daemon=True)
        self.meet = {name: threading.Barrier(count) for name, count in MEETINGS.items()}
        self.threads: dict[str, threading.Thread] = {}
        self.sockets: list[socket.socket] = []
        self.children: list[subprocess.Popen[bytes]] = []
        self.folder = tempfile.mkdtemp()
        self.inner, self.innermost = threading.Lock(), threading.Lock()
        self.take(self.held)

    def take(self, lock: threading.Lock) -> None:
        lock.acquire()

    # --------------------------------------------------------------------------------------------------- locks

    def a_then_b(self) -> None:
        with self.a:
            self.meet["locks"].wait()
            with self.b:
                pass

    def b_then_a(self) -> None:
        self.b.acquire()
        try:
            self.meet["locks"].wait()
            self.a.acquire()
        finally:
            self.b.release()

    def r_then_s(self) -> None:
        r = self.r
        with r:
            self.meet["rlocks"].wait()
            with self.s:
                pass

    def s_then_r(self) -> None:
        with self.s:
            self.meet["rlocks"].wait()
            self.r.acquire(True)

    def itself(self) -> None:
        lock = threading.Lock()
        with lock, lock:
            pass

    def condition_then_lock(self) -> None:
        with self.condition:
            self.meet["condition"].wait()
            with Program.of_class:
                pass

    def lock_then_condition(self) -> None:
        with Program.of_class:
            self.meet["condition"].wait()
            with self.condition:
                pass

    def joins(self, other: str) -> None:
        self.meet["joins"].wait()
        self.threads[other].join()

    def holds_and_joins(self) -> None:
        with self.slotted.lock:
            self.meet["lock and join"].wait()
            self.threads["wants_slotted"].join()

    def wants_slotted(self) -> None:
        self.meet["lock and join"].wait()
        with self.slotted.lock:
            pass

    def timed_x(self) -> None:
        with self.timed["x"]:
            self.meet["timed"].wait()
            self.timed["y"].acquire(timeout=1000)

    def timed_y(self) -> None:
        with self.timed["y"]:
            self.meet["timed"].wait()
            self.timed["x"].acquire(True, 1000)

    def holds_outer(self) -> None:
        with self.outer:
            try:
                with self.inner, self.innermost:
                    self.meet["outer"].wait()
                    self.event.wait()
            finally:
                self.event.clear()

    def wants_outer(self) -> None:
        self.meet["outer"].wait()
        with self.outer:
            pass

    def wants_held(self) -> None:
        with self.held:
            pass

    def wants_a_result(self) -> None:
        def choose() -> threading.Lock:
            return self.held

        with choose():
            pass

    def holds_own(self) -> None:
        with self.own:
            self.event.wait()

    def wants_own(self) -> None:
        self.meet["own"].wait()
        with self.own:
            pass

    def released(self) -> None:
        self.inside.acquire()
        self.inside.release()
        self.take(self.inside)
        self.event.wait()

    def wants_released(self) -> None:
        while not self.inside.locked():
            time.sleep(0)
        self.inside.acquire()

    # --------------------------------------------------------------------------------------------- the library

    def acquires_semaphore(self) -> None:
        self.semaphore.acquire()

    def waits_barrier(self) -> None:
        self.barrier.wait()

    def gets_items(self) -> None:
        self.items.get()

    def gets_simple(self) -> None:
        self.simple.get()

    def gets_messages(self) -> None:
        self.messages.get()

    def joins_worker(self) -> None:
        self.worker.join()

    def waits_for_notice(self) -> None:
        with self.notified:
            self.notified.wait()

    def waits_until_true(self) -> None:
        with self.notified:
            self.notified.wait_for(lambda: False)

    def works_until_set(self) -> None:
        self.pool_of_events.submit(threading.Event().wait).result()

    def logs(self) -> None:
        self.meet["logging"].wait()
        self.handler.handle(logging.makeLogRecord({}))

    def hogs(self) -> None:
        with self.handler.lock:  # type: ignore[union-attr] # its base class may have none
            self.meet["logging"].wait()
            self.event.wait()

    def result_of_process(self) -> None:
        self.processes.submit(time.sleep, 3600).result()

    def served(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        self.sockets += [listener, client, listener.accept()[0]]
        client.recv(1)

    def puts(self) -> None:
        self.full.put(1)
        self.full.put(2)

    def joins_queue(self) -> None:
        self.full.join()

    def result(self) -> None:
        self.pool.submit(time.sleep, 3600).result()

    def loop(self) -> None:
        asyncio.run(asyncio.sleep(3600))

    def locks_twice(self) -> None:
        self.process_lock.acquire()
        self.process_lock.acquire()

    def imports(self) -> None:
        import slow_module  # type: ignore[import-not-found] # noqa: F401

    def imports_as_well(self) -> None:
        self.meet["import"].wait()
        import slow_module  # noqa: F401

    # ---------------------------------------------------------------------------------------------- the kernel

    def receives(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        self.sockets += [listener, client]
        client.settimeout(None)
        client.recv(1)

    def receives_in_time(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        self.sockets += [listener, client]
        client.settimeout(1000)
        client.recv(1)

    def accepts(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.sockets.append(listener)
        listener.accept()

    def opens(self) -> None:
        path = f"{self.folder}/shard\x1b[2J"
        os.mkfifo(path)
        Path(path).open().close()

    def reads_pipe(self) -> None:
        os.read(os.pipe()[0], 1)

    def child(self, *words: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(words, stdout=stdout)
        self.children.append(child)
        return child

    def reads_child(self) -> None:
        output = self.child("sleep", "3601", stdout=subprocess.PIPE).stdout
        assert output is not None
        output.read()

    def communicates(self) -> None:
        self.child("sleep", "3602", stdout=subprocess.PIPE).communicate()

    def communicates_without_pipes(self) -> None:
        self.child("sleep", "3606").communicate()

    def waits_for_child(self) -> None:
        self.child("sleep", "3603").wait()

    def waits_for_pid(self) -> None:
        os.waitpid(self.child("sleep", "3604").pid, 0)

    def sleeps(self) -> None:
        time.sleep(3605)

    def polls(self) -> None:
        path = f"{self.folder}/ready"
        while not os.path.exists(path):  # noqa: PTH110 - what programs do
            time.sleep(3607)

    def polls_path(self) -> None:
        ready = Path(self.folder, "loaded")
        while True:
            if ready.exists():
                break
            time.sleep(3608)

    def polls_nothing(self) -> None:
        if os.path.exists(self.folder):  # noqa: PTH110
            while not self.sockets[:0]:
                time.sleep(3609)

    def locks_file(self) -> None:
        path = f"{self.folder}/index"
        holder = "import fcntl, sys; fcntl.flock(f := open(sys.argv[1], 'w'), 2); print(flush=True); sys.stdin.read()"
        child = subprocess.Popen([sys.executable, "-c", holder, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.children.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        with Path(path).open() as index:
            fcntl.flock(index, fcntl.LOCK_EX)

    def fills_pipe(self) -> None:
        _, end = os.pipe()
        os.write(end, bytes(10**6))

    def fills_pipe_of_child(self) -> None:
        child = subprocess.Popen(["sleep", "3610"], stdin=subprocess.PIPE)
        self.children.append(child)
        assert child.stdin is not None
        child.stdin.write(bytes(10**6))

    def waits_for_database(self) -> None:
        path = f"{self.folder}/runs.sqlite"
        holder, other = (sqlite3.connect(path, timeout=3600, check_same_thread=False) for _ in range(2))
        self.databases = holder, other
        holder.execute("begin exclusive")
        other.execute("begin exclusive")

    def waits_for_signal(self) -> None:
        signal.sigwait({signal.SIGUSR1})

    def computes(self) -> None:
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2**31 - 1)


def one_of_three(self: Program, number: int) -> None:
    """Take one of three locks, and want the next."""
    following = (number + 1) % 3
    with self.three[number]:
        self.meet["three"].wait()
        with self.three[following]:
            pass


MEETINGS = {"locks": 2, "rlocks": 2, "three": 3, "condition": 2, "joins": 2, "lock and join": 2, "timed": 2}
MEETINGS |= {"outer": 2, "own": 2, "import": 2, "logging": 2}

LOST = "which thread holds it is not known"
PLACE = r"\(waiting_threads\.py:\d+\)"


def cases(program: Any) -> dict[str, Case]:
    """Return the threads by their names."""
    return {
        "a_then_b": Case(
            program.a_then_b, "lock", rf"waits for the lock self\.b that thread b_then_a holds {PLACE}", "ab"
        ),
        "b_then_a": Case(
            program.b_then_a, "lock", rf"waits for the lock self\.a that thread a_then_b holds {PLACE}", "ab"
        ),
        "r_then_s": Case(
            program.r_then_s, "lock", rf"waits for the lock self\.s that thread s_then_r holds {PLACE}", "rs"
        ),
        "s_then_r": Case(
            program.s_then_r, "lock", rf"waits for the lock self\.r that thread r_then_s holds {PLACE}", "rs"
        ),
        **{
            f"three_{number}": Case(
                partial(one_of_three, program, number),
                "lock",
                rf"waits for the lock self\.three\[following\] that thread three_{(number + 1) % 3} holds {PLACE}",
                "three",
            )
            for number in range(3)
        },
        "itself": Case(
            program.itself, "lock", rf"waits for the lock lock that this thread holds already {PLACE}", "itself"
        ),
        "condition_then_lock": Case(
            program.condition_then_lock,
            "lock",
            rf"waits for the lock Program\.of_class that thread lock_then_condition holds {PLACE}",
            "condition",
        ),
        "lock_then_condition": Case(
            program.lock_then_condition,
            "lock",
            rf"waits for the lock self\._lock of threading that thread condition_then_lock holds {PLACE}",
            "condition",
        ),
        "join_1": Case(lambda: program.joins("join_2"), "lock", "waits for the end of thread join_2", "joins"),
        "join_2": Case(lambda: program.joins("join_1"), "lock", "waits for the end of thread join_1", "joins"),
        "holds_and_joins": Case(
            program.holds_and_joins, "lock", "waits for the end of thread wants_slotted", "slotted"
        ),
        "wants_slotted": Case(
            program.wants_slotted,
            "lock",
            rf"waits for the lock self\.slotted\.lock that thread holds_and_joins holds {PLACE}",
            "slotted",
        ),
        "timed_x": Case(
            program.timed_x, "lock", rf"waits for the lock self\.timed\['y'\] that thread timed_y holds {PLACE}"
        ),
        "timed_y": Case(
            program.timed_y, "lock", rf"waits for the lock self\.timed\['x'\] that thread timed_x holds {PLACE}"
        ),
        "holds_outer": Case(program.holds_outer, "lock", r"waits for the event self\.event to be set"),
        "wants_outer": Case(
            program.wants_outer, "lock", rf"waits for the lock self\.outer that thread holds_outer holds {PLACE}"
        ),
        "wants_held": Case(program.wants_held, "lock", rf"waits for the lock self\.held; {LOST}"),
        "wants_a_result": Case(program.wants_a_result, "lock", f"waits for a lock; {LOST}"),
        "holds_own": Case(program.holds_own, "lock", r"waits for the event self\.event to be set"),
        "wants_own": Case(
            program.wants_own, "lock", rf"waits for the lock self\.inner that thread holds_own holds {PLACE}"
        ),
        "released": Case(program.released, "lock", r"waits for the event self\.event to be set"),
        "wants_released": Case(program.wants_released, "lock", rf"waits for the lock self\.inside; {LOST}"),
        "notice": Case(program.waits_for_notice, "lock", r"waits for the condition self\.notified to be notified"),
        "until_true": Case(program.waits_until_true, "lock", r"waits for the condition self\.notified to be notified"),
        "works_until_set": Case(
            program.works_until_set, "lock", "waits for the result of the future in thread of_events_0"
        ),
        "handler": Case(program.logs, "lock", rf"waits for the lock self\.lock of logging that thread hogs .* {PLACE}"),
        "hogs": Case(program.hogs, "lock", r"waits for the event self\.event to be set"),
        "result_of_process": Case(
            program.result_of_process, "child", r"waits for the future in the process \d+ \(same .*\)"
        ),
        "served": Case(
            program.served, "socket", r"reads the socket 127\.0\.0\.1:\d+ → 127\.0\.0\.1:\d+ of this process itself"
        ),
        "semaphore": Case(program.acquires_semaphore, "lock", r"waits for the semaphore self\.semaphore; .*"),
        "barrier": Case(program.waits_barrier, "lock", r"waits at the barrier self\.barrier, where 1 of 3 are"),
        "gets": Case(program.gets_items, "data", r"waits for an item of the queue self\.items"),
        "gets_simple": Case(program.gets_simple, "data", r"waits for an item of the queue self\.simple"),
        "gets_message": Case(program.gets_messages, "data", r"waits for an item of the queue self\.messages"),
        "puts": Case(program.puts, "data", r"waits for room in the queue self\.full"),
        "joins_queue": Case(program.joins_queue, "data", r"waits until all items of the queue self\.full are done"),
        "result": Case(program.result, "lock", "waits for the result of the future in thread in_pool_0"),
        "loop": Case(program.loop, "loop", "waits for its task sleep"),
        "locks_twice": Case(
            program.locks_twice,
            "lock",
            r"waits for the lock self\.process_lock of multiprocessing, which another process may hold",
        ),
        "imports_as_well": Case(
            program.imports_as_well, "lock", "waits for thread imports to import the module slow_module"
        ),
        "imports": Case(program.imports, "sleep", r"sleeps \(time\.sleep\(3606\)\)"),
        "joins_process": Case(program.joins_worker, "child", r"waits for the end of the process \d+ \(same program\)"),
        "receives": Case(program.receives, "socket", r"reads the socket 127\.0\.0\.1:\d+ → 127\.0\.0\.1:\d+"),
        "receives_in_time": Case(
            program.receives_in_time, "socket", r"waits for the socket 127\.0\.0\.1:\d+ → 127\.0\.0\.1:\d+"
        ),
        "accepts": Case(program.accepts, "socket", r"waits for connections on 127\.0\.0\.1:\d+"),
        "opens": Case(program.opens, "file", r"opens the pipe /.*/shard\\x1b\[2J that nobody writes to"),
        "reads_pipe": Case(program.reads_pipe, "unknown", "reads a pipe of its own process"),
        "reads_child": Case(program.reads_child, "child", r"reads the output of the process \d+ \(`sleep 3601`\)"),
        "communicates": Case(program.communicates, "child", r"reads the output of the process \d+ \(`sleep 3602`\)"),
        "communicates_without_pipes": Case(
            program.communicates_without_pipes, "child", r"waits for the process \d+ \(`sleep 3606`\)"
        ),
        "waits_for_child": Case(program.waits_for_child, "child", r"waits for the process \d+ \(`sleep 3603`\)"),
        "waits_for_pid": Case(program.waits_for_pid, "child", r"waits for the process \d+ \(`sleep 3604`\)"),
        "sleeps": Case(program.sleeps, "sleep", r"sleeps \(time\.sleep\(3605\)\)"),
        "polls": Case(
            program.polls, "file", r"looks for the file /\S+/ready again and again \(time\.sleep\(3607\) between\)"
        ),
        "polls_path": Case(
            program.polls_path,
            "file",
            r"looks for the file /\S+/loaded again and again \(time\.sleep\(3608\) between\)",
        ),
        "polls_nothing": Case(program.polls_nothing, "sleep", r"sleeps \(time\.sleep\(3609\)\)"),
        "locks_file": Case(
            program.locks_file,
            "file",
            r"waits for the lock of the file /\S+/index, which the process \d+ \(`.*`\) holds",
        ),
        "fills_pipe": Case(program.fills_pipe, "child", "writes to a full pipe to this process itself.*"),
        "fills_pipe_of_child": Case(
            program.fills_pipe_of_child, "child", r"writes to a full pipe to the process \d+ \(`sleep 3610`\)"
        ),
        "waits_for_database": Case(
            program.waits_for_database, "sleep", r"sleeps in other\.execute \(waiting_threads\.py:\d+\)"
        ),
        "waits_for_signal": Case(program.waits_for_signal, "unknown", "waits for a signal"),
        "computes": Case(program.computes, "native", rf"is in C code \(hashlib\.pbkdf2_hmac called at {PLACE[2:]}"),
    }


def circles_among(waits: Sequence[ThreadWait]) -> dict[int, int]:
    """Return for each thread that waits for itself, perhaps through others, the number of its circle, from 1 on."""
    graph = WaitGraph()
    for wait in waits:
        graph.add(thread_node(0, wait.number))
        for awaited in wait.awaits:
            graph.wait(thread_node(0, wait.number), thread_node(0, awaited))
    circles = [component for component in graph.components() if graph.is_circle(component)]
    return {node.number: number for number, circle in enumerate(circles, 1) for node in circle}


def main() -> None:
    """Have all threads wait, and print what is told of them."""
    import re

    from dbg_agent.evidence import descriptors, locks, threads
    from dbg_agent.stop import stacks

    vars(stacks)["MAX_THREADS"] = 100
    threads.MAX_SECONDS = locks.MAX_SECONDS = descriptors.MAX_SECONDS = 3600.0
    program = Program()
    program.worker.start()
    # Its process is forked before there are threads and sockets.
    program.processes.submit(os.getpid).result()
    slow = "import sys, time\nsys.modules['__main__'].importing()\ntime.sleep(3606)\n"
    Path(program.folder, "slow_module.py").write_text(slow)
    sys.path.insert(0, program.folder)
    globals()["importing"] = program.meet["import"].wait
    wanted = cases(program)
    program.threads = {name: threading.Thread(target=case.run, name=name, daemon=True) for name, case in wanted.items()}
    for thread in program.threads.values():
        thread.start()
    while not program.own.inner.locked():
        time.sleep(0)
    program.meet["own"].wait()

    waits_for_look = "waits for the end of thread dbg-agent-look"

    def look() -> None:
        until = time.monotonic() + SECONDS
        while True:
            told = threads.threads_seen(None)
            texts = {one.thread: (one.kind.value, one.text) for one in told}
            right = [
                name
                for name, case in wanted.items()
                if texts[name][0] == case.kind and re.fullmatch(case.text, texts[name][1])
            ]
            # The main thread may still be within the start of this one.
            is_joined = texts["MainThread"][1] == waits_for_look
            if (len(right) == len(wanted) and is_joined) or time.monotonic() > until:
                break
        circles = circles_among(told)
        for one in told:
            places = [[place.function, place.line] for place in one.frames]
            row = [one.thread, one.kind.value, one.text, circles.get(one.number, 0), one.is_main, places]
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
