"""Tasks of asyncio, named by their coroutines, with what each waits for; read while the loop waits."""

from __future__ import annotations

import asyncio
import glob
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.pool import Pool
from types import FrameType
from typing import Any

import pytest

from dbg_agent.evidence.loops import loops_seen, retried, retries
from dbg_agent.evidence.pools import busy_pool, replaced_workers, worker_for
from dbg_agent.evidence.stacks import seen_threads
from dbg_agent.evidence.tasks import MAX_TASKS, SeenTask, roots, seen_tasks
from tests.support.time_unit import seconds


async def fetch_rollouts(rollouts: asyncio.Queue[int]) -> int:
    return await rollouts.get()


async def take(lock: asyncio.Lock) -> None:
    async with lock:
        pass


async def wait_for_start(started: asyncio.Event) -> None:
    await started.wait()


async def pause() -> None:
    await asyncio.sleep(3600)


async def train(*coroutines: Coroutine[Any, Any, object]) -> None:
    await asyncio.gather(*coroutines)


class Hostile(asyncio.Event):
    """An event whose name and attributes would run code."""

    def __getattribute__(self, name: str) -> Any:
        if threading.current_thread().name == "looks":
            raise AssertionError(name)
        return super().__getattribute__(name)


def _waits(task: Any) -> bool:
    return task._fut_waiter is not None


async def read(stream: asyncio.StreamReader) -> bytes:
    return await stream.readline()


def look_at(work: Callable[[], Coroutine[Any, Any, object]], count: int) -> list[SeenTask]:
    """Return what another thread sees of a loop once so many of its tasks wait."""
    found: list[SeenTask] = []

    async def program() -> None:
        loop = asyncio.get_running_loop()
        running = asyncio.ensure_future(work())
        me = asyncio.current_task()
        # Nothing tells that a task has begun to wait.
        while sum(_waits(one) for one in asyncio.all_tasks() - {me}) < count:  # noqa: ASYNC110
            await asyncio.sleep(0)
        looks = threading.Thread(target=lambda: found.extend(seen_tasks(loop)), name="looks")
        looks.start()
        looks.join(seconds(20))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(program())
    return [one for one in found if not one.name.startswith("program")]


def test_tasks_are_told_by_their_coroutines_with_the_names_of_what_they_wait_for() -> None:
    async def work() -> None:
        rollouts: asyncio.Queue[int] = asyncio.Queue()
        lock, started = asyncio.Lock(), Hostile()
        await lock.acquire()
        await train(fetch_rollouts(rollouts), fetch_rollouts(rollouts), take(lock), wait_for_start(started), pause())

    found = look_at(work, 6)
    told = {one.name: one.text.rpartition(" (")[0] for one in found}

    assert told == {
        "fetch_rollouts": "waits for an item of the queue rollouts",
        "pause": "sleeps",
        "take": "waits for the lock",
        "wait_for_start": "waits for the event started",
        "work": "waits for 5 tasks fetch_rollouts, take, wait_for_start",
    }
    assert [one.name for one in roots(found)] == ["work"]
    (work_task,) = roots(found)
    assert {one.name for one in found if any(one.task is task for task in work_task.awaits)} == set(told) - {"work"}


def test_of_a_loop_with_thousands_of_tasks_some_are_told() -> None:
    async def work() -> None:
        await train(*(pause() for _ in range(500)))

    assert len(look_at(work, 501)) <= MAX_TASKS


def test_another_loops_tasks_and_no_loop_at_all_are_nothing() -> None:
    async def work() -> None:
        await train(pause())

    assert look_at(work, 2)
    assert seen_tasks(object()) == []


@pytest.mark.parametrize(
    ("waits_for", "names"), [("a stream", ["program"]), ("tasks", ["program"]), ("a queue", ["pause", "program"])]
)
def test_a_thread_waits_for_its_main_task_unless_another_one_may_end_what_that_waits_for(
    waits_for: str, names: list[str]
) -> None:
    found: list[list[str]] = []
    frames = sys._current_frames
    ident = threading.get_ident()

    def look(loop: asyncio.AbstractEventLoop) -> None:
        seen = seen_tasks(loop)
        innermost: FrameType | None = frames()[ident]
        stack = []
        while innermost is not None:
            stack.append(innermost)
            innermost = innermost.f_back
        found.append([one.name for one in roots(seen, stack)])
        loop.call_soon_threadsafe(loop.stop)

    async def program() -> None:
        loop = asyncio.get_running_loop()
        other = asyncio.ensure_future(pause())
        loop.call_soon(lambda: loop.call_soon(threading.Thread(target=look, args=(loop,)).start))
        if waits_for == "tasks":
            await asyncio.gather(pause(), pause())
        await (asyncio.Queue[int]().get() if waits_for == "a queue" else read(asyncio.StreamReader()))
        await other

    with pytest.raises(RuntimeError, match="stopped before"):
        asyncio.run(program())
    assert found == [names]


FOLDER = "/none/run"
FEW = 3


class Looked(BaseException):
    """Ends a loop that has been looked at: nothing that a loop expects."""


class Trying:
    """A program whose loops try something again after a pause; each looks at itself in one of the two."""

    def __init__(self) -> None:
        self.found = ""
        self.times = 0

    def pause(self) -> None:
        self.found = retried([sys._getframe(1)])
        raise Looked

    def urlopen(self) -> bool:
        self.found = retries([sys._getframe(1)])
        raise Looked

    def is_there(self) -> bool:
        # A loop asks for the first time before it begins.
        self.times += 1
        return self.times > 1 and self.urlopen_within()

    def urlopen_within(self) -> bool:
        self.found = retries([sys._getframe(2)])
        raise Looked

    def sleep(self) -> None:
        """Stand for the pause of a loop that is looked at while it tries."""

    def post_metrics(self) -> None:
        while True:
            try:
                glob.glob(FOLDER)  # noqa: PTH207
                int("none")
                return
            except ValueError:
                self.pause()

    def until_it_works(self) -> None:
        for _ in range(5):
            try:
                return self.connect()
            except OSError:
                pass
            self.pause()
        return None

    def until_it_is_there(self) -> None:
        while not os.path.exists(FOLDER):  # noqa: PTH110
            self.pause()

    def connect(self) -> None:
        raise OSError

    def works(self) -> None:
        while True:
            self.connect_later()
            self.pause()

    def connect_later(self) -> None:
        return None

    def tries(self) -> None:
        while True:
            try:
                self.urlopen()
                return
            except OSError:
                self.sleep()

    def asks(self) -> None:
        while not self.is_there():
            self.sleep()

    def counts(self) -> None:
        while int(self.count("ready")) < FEW:
            self.pause()

    def asks_and_breaks(self) -> None:
        while True:
            if self.is_there():
                break
            self.sleep()
        self.found = ""

    def sleeps_in_one_step(self) -> None:
        for step in range(FEW):
            if self.count("ready") == "2" and step < FEW:
                self.pause()
            self.connect_later()

    def count(self, name: str) -> str:
        return f"{len(name) - 3}"

    def sleeps_elsewhere(self) -> None:
        for _ in range(3):
            try:
                self.urlopen()
            except OSError:
                return
        self.sleep()

    def trains(self) -> None:
        for _ in range(3):
            self.urlopen()
            self.sleep()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("post_metrics", "post_metrics (test_tasks.py): glob, int"),
        ("until_it_works", "until_it_works (test_tasks.py): connect"),
        ("until_it_is_there", "until_it_is_there (test_tasks.py): exists"),
        ("works", ""),
        ("tries", "tries (test_tasks.py): urlopen"),
        ("asks", "asks (test_tasks.py): is_there"),
        ("counts", "counts (test_tasks.py): count, int"),
        ("asks_and_breaks", "asks_and_breaks (test_tasks.py): is_there"),
        ("sleeps_in_one_step", ""),
        ("sleeps_elsewhere", ""),
        ("trains", ""),
    ],
)
def test_a_loop_that_tries_again_is_told_with_its_tries(name: str, told: str) -> None:
    program = Trying()
    with pytest.raises(Looked):
        getattr(program, name)()
    assert program.found == told


def here() -> FrameType:
    """Return the frame of the caller."""
    return sys._getframe(1)


def line_of(text: str) -> int:
    """Return the line of this file that ends with a text."""
    with open(__file__) as source:  # noqa: PTH123
        return next(number for number, line in enumerate(source, 1) if line.rstrip().endswith(text))


def lines(frame: FrameType) -> list[tuple[int, int]]:
    """Return first and last line of the loops around a frame, the innermost first."""
    return [(one.first, one.last) for one in loops_seen([frame], 1)]


def epochs() -> list[list[tuple[int, int]]]:
    found = [lines(here())]
    for _epoch in range(1):  # epochs begin
        for _batch in range(1):  # batches begin
            try:
                found.append(lines(here()))
            except ValueError:
                continue  # batches end
        found.append(lines(here()))  # epochs end
    step = 0
    while step < 1:  # steps begin
        found.append(lines(here()))
        step += 1  # steps end
    return [*found, lines(here())]


def test_the_loops_around_a_frame_are_told_by_their_lines() -> None:
    outer = (line_of("# epochs begin"), line_of("# epochs end"))
    steps = (line_of("# steps begin"), line_of("# steps end"))
    before, in_batch, in_epoch, in_step, after = epochs()

    assert (before, after) == ([], [])
    assert [first for first, _ in in_batch] == [line_of("# batches begin"), outer[0]]
    assert in_batch[0][1] < line_of("# epochs end")
    assert in_epoch == [outer]
    assert in_step == [steps]


def test_a_frame_is_told_by_its_place_among_those_that_are_told() -> None:
    for _ in range(1):
        frame = here()
        assert [one.frame for one in loops_seen([frame, here()], 2)] == [1, 0]
        assert [one.frame for one in loops_seen([frame, here()], 1)] == [0]


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
