"""Pools of threads whose work waits behind itself, and pools of processes that have lost some."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.pool import Pool

import pytest

from dbg_agent.evidence.pools import busy_pool, replaced_workers, worker_for
from dbg_agent.evidence.stacks import seen_threads


class Nested:
    """A pool of threads whose work waits for further work of the same pool, until it is let go."""

    def __init__(self, threads: int, nested: int) -> None:
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="nested")
        self.go_on, self.begun = threading.Event(), threading.Barrier(nested + 1)
        self.inner: list[Future[int]] = []
        self.outer = [self.pool.submit(self.work) for _ in range(nested)]
        self.begun.wait()

    def work(self) -> int:
        self.begun.wait()
        self.inner.append(self.pool.submit(int, "7"))
        self.go_on.wait()
        return self.inner[-1].result()

    def wait_until_in_result(self, count: int) -> None:
        """Wait until that many threads wait for a result."""
        self.go_on.set()
        while sum(any(f.f_code.co_name == "result" for f in one.frames) for one in seen_threads(None)) < count:
            pass

    def end(self) -> None:
        for one in self.inner:
            one.set_result(7)
        self.pool.shutdown(wait=True, cancel_futures=True)


@pytest.mark.parametrize(("threads", "nested", "busy"), [(1, 1, 1), (2, 2, 2), (2, 1, 0)])
def test_a_pool_all_of_whose_threads_wait_for_its_own_queue_is_found(threads: int, nested: int, busy: int) -> None:
    program = Nested(threads, nested)
    blocker = threading.Event()
    others = [program.pool.submit(blocker.wait) for _ in range(threads - nested)]
    try:
        if busy:
            program.wait_until_in_result(nested)
        else:
            # One of its threads works on something else, and may begin what waits.
            while not others[0].running():
                pass
            program.go_on.set()
            while not program.inner:
                pass
        found = busy_pool(program.inner[0], seen_threads(None))
        assert sorted(one.name for one in found) == [f"nested_{number}" for number in range(busy)]
        assert busy_pool(Future(), seen_threads(None)) == []
    finally:
        blocker.set()
        program.go_on.set()
        if busy:
            program.end()
        program.pool.shutdown(wait=True)


def test_the_thread_that_does_the_work_is_found() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="works") as pool:
        begun, end = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            end.wait()

        future = pool.submit(work)
        begun.wait()
        found = worker_for(future, seen_threads(None))
        end.set()
    assert found is not None
    assert found.name == "works_0"
    assert worker_for(Future(), seen_threads(None)) is None


@pytest.fixture
def pool() -> Pool:
    """Return a pool of two processes, none of which forks the test's own threads."""
    return multiprocessing.get_context("spawn").Pool(2)


def test_processes_that_stand_in_for_others_are_counted(pool: Pool) -> None:
    with pool:
        # A result without its pool is a finished one.
        result = pool.map_async(time.sleep, [3600])
        kept = pool.apply(os.getpid)
        assert replaced_workers(result) == (0, 2)
        killed = next(one for one in pool._pool if one.pid != kept)  # type: ignore[attr-defined]
        os.kill(killed.pid, signal.SIGKILL)
        while killed in pool._pool or len(pool._pool) < 2:  # type: ignore[attr-defined]
            pass
        assert replaced_workers(result) == (1, 2)
    assert replaced_workers(object()) == (0, 0)
