"""Tasks of asyncio, named by their coroutines, with what each waits for; read while the loop waits."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from dbg_agent.evidence.tasks import MAX_TASKS, SeenTask, roots, seen_tasks
from dbg_agent.evidence.threads import threads_seen
from dbg_client.why.wait_text import wait_text
from dbg_wire.records.evidence import Activity
from tests.conftest import Approved
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
        samples = threading.Thread(target=lambda: found.extend(seen_tasks(loop)), name="looks")
        samples.start()
        samples.join(seconds(20))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(program())
    return [one for one in found if not one.name.startswith("program")]


def test_tasks_are_named_by_their_coroutines_with_what_they_wait_for(approved: Approved) -> None:
    async def work() -> None:
        rollouts: asyncio.Queue[int] = asyncio.Queue()
        lock, started = asyncio.Lock(), Hostile()
        await lock.acquire()
        await train(fetch_rollouts(rollouts), fetch_rollouts(rollouts), take(lock), wait_for_start(started), pause())

    found = look_at(work, 6)
    texts = {one.name: wait_text(one.does.replace(place=None)) for one in found}
    approved(f"{name}: {texts[name]}" for name in sorted(texts))
    assert [one.name for one in roots(found)] == ["work"]
    (work_task,) = roots(found)
    assert {one.name for one in found if any(one.task is task for task in work_task.awaits)} == set(texts) - {"work"}


def test_a_loop_with_thousands_of_tasks_shows_some_and_no_loop_shows_none() -> None:
    async def work() -> None:
        await train(*(pause() for _ in range(500)))

    assert len(look_at(work, 501)) in range(2, MAX_TASKS + 1)
    assert seen_tasks(object()) == []


@pytest.mark.parametrize(
    ("waits_for", "names"), [("a stream", ["program"]), ("tasks", ["program"]), ("a queue", ["pause", "program"])]
)
def test_a_thread_waits_for_its_main_task_unless_another_task_may_end_that_wait(
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


def test_the_thread_that_runs_the_awaited_work_is_found() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="works") as pool:
        begun, end = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            end.wait()

        future = pool.submit(work)
        begun.wait()
        waiting = threading.Thread(target=future.result, name="waits")
        waiting.start()
        wait = None
        while wait is None or wait.does.what is not Activity.FUTURE:
            wait = next(one for one in threads_seen(None) if one.thread == "waits")
        end.set()
        waiting.join()
    assert wait.does.thread == "works_0"
    assert len(wait.awaits) == 1
