"""Pools of threads and of processes: who does the work that a thread waits for, and work that nobody will do."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dbg_agent.evidence.stacks import SeenThread, module_of
from dbg_agent.frames.variables import UNKNOWN, attribute, class_of, local

if TYPE_CHECKING:
    from types import FrameType

MAX_WORKERS = 32
"""Workers of a pool that are looked at."""

MAX_QUEUED = 10_000
"""Pieces of work in the queue of a pool that are looked through."""

_WORK = ("_queue", "SimpleQueue")


def worker_for(future: object, threads: Sequence[SeenThread]) -> SeenThread | None:
    """Return the thread of a pool that runs the work whose result a future will have; None if none does."""
    return next((one for one in threads if any(_of_work(frame) is future for frame in _frames(one, "run"))), None)


def pool_processes(future: object, threads: Sequence[SeenThread]) -> list[int]:
    """Return the processes of the pool that has the work of a future; empty if no pool of processes has it."""
    for thread in threads:
        for frame in _frames(thread, "run", "concurrent.futures.process"):
            manager = local(frame, "self")
            work, processes = attribute(manager, "pending_work_items"), attribute(manager, "processes")
            if type(work) is not dict or type(processes) is not dict:
                continue
            if any(attribute(one, "future") is future for one in list(work.values())[:MAX_QUEUED]):
                return [pid for pid in list(processes)[:MAX_WORKERS] if type(pid) is int]
    return []


def busy_pool(future: object, threads: Sequence[SeenThread]) -> list[SeenThread]:
    """Return the threads of a pool all of which wait for work behind them in the pool's own queue, as this future is.

    Such work is never begun. Empty if a thread of the pool may become free, or if the future is in no queue.
    """
    queues: dict[int, tuple[object, list[SeenThread]]] = {}
    for thread in threads:
        for frame in _frames(thread, "_worker"):
            queue = local(frame, "work_queue")
            if class_of(queue) == _WORK:
                queues.setdefault(id(queue), (queue, []))[1].append(thread)
    for queue, workers in queues.values():
        queued = _queued(queue)
        if any(one is future for one in queued):
            awaited = [_awaited(worker) for worker in workers]
            return workers if all(any(one is other for other in queued) for one in awaited) else []
    return []


def _frames(thread: SeenThread, function: str, module: str = "concurrent.futures.thread") -> list[FrameType]:
    """Return the frames of a thread that are in a function of the module of a kind of pools."""
    return [
        frame
        for frame in (thread.frames if thread.is_readable else ())
        if frame.f_code.co_name == function and module_of(frame) == module
    ]


def _of_work(frame: FrameType) -> Any:
    return attribute(local(frame, "self"), "future")


def _queued(queue: object) -> list[Any]:
    """Return the futures of the work in a queue, which shows it to the garbage collector alone."""
    found = gc.get_referents(queue)
    # Before Python 3.13 it keeps a list.
    items = next((one for one in found if type(one) is list), found)
    return [future for one in items[:MAX_QUEUED] if (future := attribute(one, "future")) is not UNKNOWN]


def _awaited(thread: SeenThread) -> Any:
    """Return the future for whose result a thread waits without a time limit; UNKNOWN if it waits for none."""
    for frame in thread.frames if thread.is_readable else ():
        is_result = frame.f_code.co_name in ("result", "exception")
        if is_result and module_of(frame) == "concurrent.futures._base" and local(frame, "timeout") is None:
            return local(frame, "self")
    return UNKNOWN
