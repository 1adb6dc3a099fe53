"""The asyncio tasks of the program, with the names of their coroutines and their waits.

Nothing here calls Python code of the program or of asyncio: tasks and coroutines are read from their C structures.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any, NamedTuple

from dbg_agent.evidence.stacks import module_of, short_place
from dbg_agent.frames.expressions import Values, entered_by
from dbg_agent.frames.source import spot_of
from dbg_agent.frames.stacks import is_users_file
from dbg_agent.frames.variables import UNKNOWN, attribute, class_of, is_a, local
from dbg_agent.host.descriptors import doing
from dbg_wire.records.evidence import MAX_NAMES, Activity, ActivityInfo, WaitKind

MAX_TASKS = 64
"""Maximum number of tasks of one loop that are reported: a server has thousands that only wait for their clients."""

MAX_DEPTH = 100
"""Maximum depth of nested coroutines that is read."""

MAX_NAME = 60


class SeenTask(NamedTuple):
    """A task that is not done; ``awaits`` are the task objects that it waits for."""

    task: Any
    name: str
    does: ActivityInfo
    awaits: tuple[Any, ...]
    frames: tuple[FrameType, ...]


def seen_tasks(loop: object) -> list[SeenTask]:
    """Return the unfinished tasks of an event loop, at most MAX_TASKS. Any thread may call it."""
    native = sys.modules.get("_asyncio")
    kind = vars(native).get("Task") if native is not None else None
    if not isinstance(kind, type) or "asyncio.tasks" not in sys.modules:
        return []
    found = []
    for task in islice(_all_tasks(native, loop), 50 * MAX_TASKS):
        # The program's subclass of Task may override these methods, so call those of the C class.
        if is_a(task, kind) and kind.get_loop(task) is loop and not kind.done(task):  # type: ignore[attr-defined]
            found.append(_seen(kind, task))
            if len(found) >= MAX_TASKS:
                break
    return sorted(found, key=lambda one: one.name)


def roots(tasks: Sequence[SeenTask], frames: Sequence[FrameType] = ()) -> list[SeenTask]:
    """Return the tasks of a thread's loop that no other task waits for. ``frames`` are the frames of the thread.

    If the program's main task waits for other tasks, or for something that no task can provide, return only this task.
    """
    main = next((local(one, "future") for one in frames if one.f_code.co_name == "run_until_complete"), None)
    alone = [one for one in tasks if one.task is main and (one.awaits or one.does.kind not in _OF_TASKS)]
    if alone:
        return alone
    awaited = {id(one) for task in tasks for one in task.awaits}
    return [task for task in tasks if id(task.task) not in awaited]


_OF_TASKS = frozenset({WaitKind.LOCK, WaitKind.DATA})
"""Kinds of waits that another task of the loop may end, by releasing a lock or by sending data."""


def _all_tasks(native: Any, loop: object) -> Iterator[Any]:
    """Yield tasks, including all tasks of the loop. Before 3.14 they are in sets, whose names depend on the release."""
    if sys.version_info >= (3, 14):
        yield from native.all_tasks(loop)
        return
    names = vars(sys.modules["asyncio.tasks"])
    for name in ("_scheduled_tasks", "_all_tasks"):
        data = attribute(names.get(name), "data") if name in names else UNKNOWN
        if type(data) is set:
            # No other thread runs while the set is copied or a weak reference is called: both are implemented in C.
            yield from (task for reference in list(data) if (task := reference()) is not None)
            break
    yield from list(names.get("_eager_tasks", ()))


def _seen(kind: Any, task: Any) -> SeenTask:
    frames = list(_frames(kind.get_coro(task)))
    own = [frame for frame in frames if is_users_file(frame.f_code.co_filename)]
    name = (own or frames)[0].f_code.co_name[:MAX_NAME] if frames else "a task"
    waiter = _waiter_of(kind, task)
    awaits = tuple(_tasks_in(kind, waiter))
    does = _wait(frames, waiter, awaits, kind).replace(place=short_place(frames[::-1]) if own else None)
    return SeenTask(task, name, does, awaits, tuple(frames))


def _waiter_of(kind: Any, task: Any) -> Any:
    """Return the future that a task waits for, from its C structure; None if the task is ready to run."""
    descriptor = kind.__dict__.get("_fut_waiter")
    return descriptor.__get__(task) if descriptor is not None else None


def _frames(coroutine: object) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of the coroutines that it awaits, outermost first."""
    for _ in range(MAX_DEPTH):
        if type(coroutine) is CoroutineType:
            frame, coroutine = coroutine.cr_frame, coroutine.cr_await
        elif type(coroutine) is GeneratorType:
            frame, coroutine = coroutine.gi_frame, coroutine.gi_yieldfrom
        elif type(coroutine) is AsyncGeneratorType:
            frame, coroutine = coroutine.ag_frame, coroutine.ag_await
        else:
            return
        if frame is None:
            return
        yield frame


def _tasks_in(kind: Any, waiter: Any) -> Iterator[Any]:
    """Yield the tasks that a task with this future waits for: one task, or the tasks of ``gather``."""
    if is_a(waiter, kind):
        yield waiter
    children = None
    if class_of(waiter) == ("asyncio.tasks", "_GatheringFuture"):
        # attribute() can't read the children: asyncio's C class has an instance dictionary without a `__dict__` entry.
        children = object.__getattribute__(waiter, "_children")
    if type(children) is list:
        yield from (one for one in children[:MAX_TASKS] if is_a(one, kind) and not kind.done(one))


_RULES: dict[tuple[str, str], Activity] = {
    ("asyncio.queues", "get"): Activity.QUEUE_GET,
    ("asyncio.queues", "put"): Activity.QUEUE_PUT,
    ("asyncio.queues", "join"): Activity.QUEUE_JOIN,
    ("asyncio.tasks", "sleep"): Activity.SLEEP,
    ("asyncio.tasks", "wait"): Activity.OTHER_TASKS,
    ("asyncio.streams", "read"): Activity.STREAM_READ,
    ("asyncio.streams", "readline"): Activity.STREAM_READ,
    ("asyncio.streams", "readexactly"): Activity.STREAM_READ,
    ("asyncio.streams", "readuntil"): Activity.STREAM_READ,
    ("asyncio.streams", "drain"): Activity.STREAM_WRITE,
    ("asyncio.streams", "open_connection"): Activity.CONNECT,
    ("asyncio.subprocess", "wait"): Activity.CHILD_END,
    ("asyncio.subprocess", "communicate"): Activity.CHILD_OUTPUT,
    ("asyncio.threads", "to_thread"): Activity.THREAD_CALL,
    ("asyncio.base_events", "serve_forever"): Activity.SERVE,
}
"""Waits of asyncio's coroutines, by module and function."""


def _wait(frames: Sequence[FrameType], waiter: Any, awaits: Sequence[Any], kind: Any) -> ActivityInfo:
    for at, frame in enumerate(frames):
        module, function = module_of(frame), frame.f_code.co_name
        is_lock = module == "asyncio.locks" and function in ("wait", "acquire")
        what = _of_class(local(frame, "self")) if is_lock else _RULES.get((module, function))
        if what is not None:
            is_unknown = {"function": function, "module": "asyncio"} if what is Activity.THREADING else {}
            return doing(what, name=_named(frames[at - 1], function) if at else "", **is_unknown)
    if awaits:
        names = dict.fromkeys(_name_of(kind, one) for one in awaits)
        return doing(Activity.TASKS, names=tuple(islice(names, MAX_NAMES)), count=len(awaits))
    if waiter is None:
        return ActivityInfo(what=Activity.READY)
    return doing(Activity.TASK_FUTURE, function=frames[-1].f_code.co_name if frames else "")


def _of_class(value: Any) -> Activity:
    known = vars(sys.modules["asyncio.locks"])
    names = ("Event", "Condition", "Barrier", "Lock", "Semaphore")
    found = next((name for name in names if is_a(value, known.get(name, Any))), "threading")
    return Activity.TASK_LOCK if found == "Lock" else Activity[found.upper()]


def _name_of(kind: Any, task: Any) -> str:
    frame = next(_frames(kind.get_coro(task)), None)
    return frame.f_code.co_name[:MAX_NAME] if frame is not None else "a task"


def _named(frame: FrameType, function: str) -> str:
    """Return the awaited object's name in the source, such as ``queue`` in ``await queue.get()``, or an empty text."""
    spot = spot_of(frame)
    node = spot.node if spot is not None else None
    called = node.value if isinstance(node, ast.Await) else node
    entered = entered_by(spot) if spot is not None else None
    values, text = Values(frame, reads=False), ""
    if isinstance(called, ast.Call) and isinstance(called.func, ast.Attribute) and called.func.attr == function:
        text = values.expression(called.func.value).text
    elif entered is not None:
        text = values.expression(entered).text
    return text if text not in ("self", "super") else ""
