"""Waits of threads in functions of Python's library, torch, Ray and filelock."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

from dbg_agent.evidence.stacks import SeenThread, module_of, short_place
from dbg_agent.frames.ended import ended_workers
from dbg_agent.frames.expressions import call_site
from dbg_agent.frames.stacks import is_users_file
from dbg_agent.frames.variables import UNKNOWN, attribute, is_a, item, local
from dbg_agent.host.descriptors import WaitWithHolder, does, doing, held_by, lock_holders, looked_up, openers, waits_in
from dbg_agent.host.process import SystemCall, has_ended, named
from dbg_agent.process.imports import loaded
from dbg_agent.process.threads import within
from dbg_wire.records.evidence import MAX_NAMES, Activity, ActivityInfo, NamedProcess, Relation, WaitKind
from dbg_wire.records.record import clamp

MAX_QUEUED = 10_000
"""Maximum number of work items of a pool that are searched."""


# ------------------------------------------------------------- worker processes of this one: multiprocessing and Ray

MAX_WORKERS = 32
"""Maximum number of workers that are checked."""

_IDLE = ((WaitKind.CHILD, WaitKind.SOCKET, WaitKind.LOCK), (WaitKind.CHILD, WaitKind.SOCKET), ())
"""Three definitions of an idle worker, by the kinds of its wait. The first definition with a busy worker is used. A
worker that waits for a lock may be idle or busy: the first definition counts the worker as idle, the second as busy.
The third counts every worker as busy."""


class Worker(NamedTuple):
    """A process of multiprocessing; ``status`` is None while it runs, and negative for a signal."""

    pid: int
    name: str
    status: int | None


def child(pid: int, name: str, status: int | None = None) -> NamedProcess:
    """Build the record of a child process of multiprocessing."""
    return clamp(NamedProcess, pid=pid, relation=Relation.CHILD, name=name, status=status)


def workers() -> list[Worker]:
    """Return the workers that this process has started and still references, by pid. Any thread may call it."""
    process = loaded("multiprocessing.process")
    found = []
    with suppress(Exception):  # another release of Python may store them differently
        for one in list(process._dangling if process is not None else ()):
            pid = attribute(attribute(one, "_popen"), "pid")
            if type(pid) is int and attribute(one, "_parent_pid") == os.getpid():
                status = _status(pid, attribute(attribute(one, "_popen"), "returncode"))
                found.append(Worker(pid, str(attribute(one, "_name")), status))
    return sorted(found)[:MAX_WORKERS]


def _status(pid: int, known: Any) -> int | None:
    if type(known) is int:
        return known
    with suppress(OSError):
        # With WNOWAIT the process stays a zombie, so the program itself can still wait for it.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    return None


def from_workers(wait: ActivityInfo, descriptor: Any = None, among: Collection[int] | None = None) -> WaitWithHolder:
    """Return ``wait`` with the processes that may send the awaited message, and the pid if there is only one.

    ``descriptor`` is the thread's end of the connection. ``among`` are the pids of the workers that may send it.
    """
    known = {one.pid: one for one in workers() if among is None or one.pid in among}
    kernel_waits = waits_in(SystemCall("read", (descriptor, 0, 0, 0, 0, 0))) if type(descriptor) is int else None
    holder = kernel_waits[1] if kernel_waits is not None else None
    if holder is None:
        dead = next((one for one in known.values() if one.status), None)
        if dead is not None:
            return wait.replace(processes=(child(*dead),)), None
        busy = _busy([pid for pid, one in known.items() if one.status is None and not has_ended(pid)])
        if len(busy) > 1:
            return wait.replace(processes=tuple(child(*known[pid]) for pid in busy)), None
        holder = next(iter(busy), _parent())
    if holder is None:
        return wait, None
    one = child(*known[holder]) if holder in known else named(holder)
    one = one.replace(relation=Relation.PARENT) if holder == _parent() else one
    return wait.replace(processes=(one,)), holder


def _busy(pids: Sequence[int]) -> list[int]:
    """Return the processes that are not idle, or all of them if all may be idle."""
    kinds = {pid: does(pid)[0].kind for pid in pids}
    found = ([pid for pid, kind in kinds.items() if kind not in idle] for idle in _IDLE)
    return next(filter(None, found), [])


def _parent() -> int | None:
    process = loaded("multiprocessing.process")
    parent = process.parent_process() if process is not None else None
    return None if parent is None else parent.pid


ASKING_SECONDS = 0.5
"""Timeout, in seconds, for Ray's tables. They are in another process, which usually answers within a millisecond."""

MAX_ACTORS = 8
"""Maximum number of pending results whose actors are looked up."""


def pending_actors(wait: ActivityInfo, refs: Sequence[Any]) -> WaitWithHolder:
    """Return the wait for these results with the actors that have not returned them yet.

    Without actors, the results come from tasks, or Ray does not answer. The pid belongs to the first actor on this
    host.
    """
    worker: Any = sys.modules.get("ray._private.worker")
    tables: Any = sys.modules.get("ray._private.state")
    none: list[tuple[str, int]] = []
    rows = within(ASKING_SECONDS, lambda: _pending(worker, tables, list(dict.fromkeys(refs))), none)
    processes = tuple(named(pid) if pid else NamedProcess(pid=0) for _, pid in rows)
    names = tuple(name for name, _ in rows)
    kernel_waits = clamp(ActivityInfo, what=wait.what, names=names, processes=processes)
    return kernel_waits, next((pid for _, pid in rows if pid), None)


def _pending(worker: Any, tables: Any, refs: list[Any]) -> list[tuple[str, int]]:
    """Return the class and pid of each actor; the pid is 0 if the actor is on another host or not alive."""
    try:
        own = worker.global_worker
        _, pending = own.core_worker.wait(refs, len(refs), 0, False)
        ids = dict.fromkeys(ref.task_id().actor_id() for ref in pending[:MAX_ACTORS])
        rows = [tables.actors(one.hex()) for one in ids if not one.is_nil()]
        return [(str(row["ActorClassName"]), _pid(row, own.node_ip_address)) for row in rows]
    except Exception:  # another release of Ray has different tables, or their process has ended
        return []


def _pid(row: Any, here: str) -> int:
    return int(row["Pid"]) if row["State"] == "ALIVE" and str(row["Address"]["IPAddress"]) == here else 0


# ------------------------------------------------------------------------------------------------------------ the waits


class Wait(NamedTuple):
    """A wait of a thread; ``others`` are the idents of threads that must proceed before the wait can end.

    ``holder`` is the pid of the process that holds the awaited resource. ``ask`` queries the kernel for details and the
    holder; during the query, other threads may take the GIL. ``is_sure`` is True if the information comes from
    the kernel or the interpreter.
    """

    does: ActivityInfo
    others: frozenset[int] = frozenset()
    ask: Callable[[], WaitWithHolder] | None = None
    holder: int | None = None
    is_sure: bool = False
    loop: Any = None
    """The asyncio event loop that the thread waits in."""


class LibraryFrame(NamedTuple):
    """A thread's frame in a library, with all threads of the process."""

    thread: SeenThread
    at: int
    threads: Sequence[SeenThread]

    @property
    def frame(self) -> FrameType:
        """The frame at the index ``at`` of the thread's frames."""
        return self.thread.frames[self.at]

    def local(self, name: str) -> Any:
        """Return a local variable of the frame, or UNKNOWN."""
        return local(self.frame, name) if self.thread.is_readable else UNKNOWN

    @property
    def named(self) -> str:
        """The calling frame's expression for the object whose method this is; empty if there is none."""
        for frame in self.thread.frames[self.at + 1 :]:
            site = call_site(frame, reads=False)
            text = "" if site is None else site.called.text if site.is_with else site.called.owner_text
            # If another method of the same object has called this one, as `wait_for` does, the expression is `self`.
            # Then a frame further out has the object's name.
            if text != "self" or module_of(frame) != module_of(self.frame):
                return text if text not in ("self", "super") else ""
        return ""


def library_wait(thread: SeenThread, threads: Sequence[SeenThread]) -> Wait | None:
    """Return the wait of the outermost library function called by user code, or None if no known function waits."""
    found = None
    for index, frame in enumerate(thread.frames):
        if is_users_file(frame.f_code.co_filename):
            break
        found = _wait_of(LibraryFrame(thread, index, threads), (module_of(frame), frame.f_code.co_name)) or found
    return found


def _wait_of(inside: LibraryFrame, function: tuple[str, str]) -> Wait | None:
    if function in _PLAIN:
        return Wait(doing(_PLAIN[function], name=inside.named))
    if function in _INNERMOST:
        # The function waits in C code, so it is waiting only if it is the innermost frame.
        return Wait(ActivityInfo(what=_INNERMOST[function])) if inside.at == 0 else None
    rule = _RULES.get(function)
    return rule(inside) if rule is not None else None


def _threading(inside: LibraryFrame) -> Wait | None:
    """Return the wait for an object of :mod:`threading`, according to the class of ``self``."""
    owner = inside.local("self")
    if owner is UNKNOWN:
        function = inside.frame.f_code.co_name
        return Wait(doing(Activity.THREADING, function=function, module="threading", name=inside.named))
    what = next((one for kind, one in _CLASSES.items() if is_a(owner, kind)), None)
    if what is Activity.BARRIER:
        there, parties = attribute(owner, "_count"), attribute(owner, "_parties")
        counts = {"count": there, "total": parties} if type(there) is int and type(parties) is int else {}
        return Wait(doing(Activity.BARRIER, name=inside.named, **counts))
    return Wait(doing(what, name=inside.named)) if what is not None else None


_CLASSES = {
    threading.Event: Activity.EVENT,
    threading.Condition: Activity.CONDITION,
    threading.Barrier: Activity.BARRIER,
    threading.Semaphore: Activity.SEMAPHORE,
}


def _join(inside: LibraryFrame) -> Wait | None:
    joined = inside.local("self")
    if joined is UNKNOWN or not is_a(joined, threading.Thread):
        return Wait(ActivityInfo(what=Activity.JOIN)) if joined is UNKNOWN else None
    ident, name = attribute(joined, "_ident"), attribute(joined, "_name")
    is_bound = type(ident) is int and inside.local("timeout") is None
    others = frozenset({ident}) if is_bound else frozenset[int]()
    return Wait(doing(Activity.JOIN, thread=name if type(name) is str else ""), others, is_sure=is_bound)


def _shutdown(inside: LibraryFrame) -> Wait:
    awaited = [one for one in inside.threads if not one.is_daemon and not one.is_main]
    names = tuple(one.name for one in awaited[:MAX_NAMES])
    return Wait(doing(Activity.SHUTDOWN, names=names), frozenset(one.ident for one in awaited), is_sure=bool(awaited))


def _popen(inside: LibraryFrame) -> Wait:
    # communicate() waits in wait() if the child has no pipes, and after its pipes are closed.
    within = {frame.f_code.co_name for frame in inside.thread.frames[: inside.at + 1]}
    does = ActivityInfo(what=Activity.CHILD_END if "wait" in within else Activity.CHILD_OUTPUT)
    pid = attribute(inside.local("self"), "pid")
    return Wait(does, ask=(lambda: held_by(does, [pid])) if type(pid) is int else None)


def _message(inside: LibraryFrame) -> Wait:
    """Return the wait for a message from another process: a child or the parent."""
    owner = inside.local("self")
    does = doing(_MESSAGES[module_of(inside.frame), inside.frame.f_code.co_name], name=inside.named)
    ends = (owner, attribute(owner, "_reader"))
    descriptor = next((one for end in ends if type(one := attribute(end, "_handle")) is int), None)
    return Wait(does, ask=lambda: from_workers(does, descriptor))


def _process(inside: LibraryFrame) -> Wait:
    joined = inside.local("self")
    pid, name = attribute(attribute(joined, "_popen"), "pid"), attribute(joined, "_name")
    if type(pid) is not int or type(name) is not str:
        return Wait(ActivityInfo(what=Activity.CHILD_END))
    return Wait(doing(Activity.CHILD_END, processes=(child(pid, name),)), holder=pid, is_sure=True)


def _loader(inside: LibraryFrame) -> Wait:
    """Return the wait for a batch, with the worker that must send it, or with all workers if any may send it."""
    loader = inside.local("self")
    workers = attribute(loader, "_workers")
    pids = [attribute(attribute(item(workers, at), "_popen"), "pid") for at in range(MAX_WORKERS)]
    known = [pid for pid in pids if type(pid) is int]
    does = ActivityInfo(what=Activity.BATCH)
    if not known:
        return Wait(does)
    # The loader returns batches in the order of their numbers. Until a batch arrives, _task_info has its worker.
    task = item(attribute(loader, "_task_info"), attribute(loader, "_rcvd_idx"))
    at = item(task, 0) if type(task) is tuple and len(task) == 1 else UNKNOWN
    if attribute(loader, "_in_order") is False:
        at = UNKNOWN
    at = 0 if len(known) == 1 else at
    if type(at) is int and 0 <= at < len(known):
        pid = known[at]
        return Wait(doing(Activity.LOADER, count=at, processes=(child(pid, ""),)), holder=pid, is_sure=True)
    return Wait(does, ask=lambda: from_workers(does, among=known))


def _loop(inside: LibraryFrame) -> Wait | None:
    outer = inside.thread.frames[inside.at + 1 : inside.at + 2]
    if outer and outer[0].f_code.co_name == "_run_once":
        loop = local(outer[0], "self") if inside.thread.is_readable else None
        return Wait(ActivityInfo(what=Activity.EVENT_LOOP), loop=loop)
    return None


def _future(inside: LibraryFrame) -> Wait:
    future = inside.local("self")
    state = attribute(future, "_state")
    does = doing(Activity.FUTURE, name=inside.named, state=state.lower() if type(state) is str else "")
    if future is UNKNOWN or inside.local("timeout") is not None:
        return Wait(does)
    for thread, frame in _pool_frames(inside.threads, "concurrent.futures.thread"):
        if attribute(local(frame, "self"), "future") is future:
            return Wait(does.replace(state="", thread=thread.name), frozenset({thread.ident}), is_sure=True)
    for _, frame in _pool_frames(inside.threads, "concurrent.futures.process"):
        manager = local(frame, "self")
        work, processes = attribute(manager, "pending_work_items"), attribute(manager, "processes")
        known = list(work.values())[:MAX_QUEUED] if type(work) is dict and type(processes) is dict else []
        if any(attribute(one, "future") is future for one in known):
            pids = [pid for pid in list(processes)[:MAX_WORKERS] if type(pid) is int]
            return Wait(does, ask=partial(from_workers, does, among=pids))
    return Wait(does)


def _pool_frames(threads: Sequence[SeenThread], module: str) -> Iterator[tuple[SeenThread, FrameType]]:
    """Yield the threads and frames that run work items of a pool, or manage its processes; ``module`` is the pool's."""
    for thread in threads:
        for frame in thread.frames if thread.is_readable else ():
            if frame.f_code.co_name == "run" and module_of(frame) == module:
                yield thread, frame


def _pool_result(inside: LibraryFrame) -> Wait:
    return Wait(doing(Activity.POOL_RESULT, processes=tuple(child(*one) for one in ended_workers())))


def _file_lock(inside: LibraryFrame) -> Wait:
    """Return the wait for a ``FileLock``, which polls its lock, with the lock's file and holders."""
    # The path is in a local variable; before release 3.30 it is as the program has passed it. The lock itself can't be
    # read, because it stores its attributes for each thread separately.
    found = (inside.local(name) for name in ("canonical_path", "lock_filename"))
    is_soft = "SoftFileLock" in type(inside.local("self")).__name__
    return _of_file(
        Activity.LOCK_FILE if is_soft else Activity.FILE_LOCK, next((one for one in found if type(one) is str), "")
    )


def _baton(inside: LibraryFrame) -> Wait:
    path = attribute(inside.local("self"), "lock_file_path")
    return _of_file(Activity.LOCK_FILE, path if type(path) is str else "")


def _of_file(what: Activity, path: str) -> Wait:
    if not path:
        return Wait(ActivityInfo(what=what))
    does = doing(what, name=os.path.abspath(path))  # noqa: PTH100 - no pathlib in a rank

    def ask() -> WaitWithHolder:
        found = looked_up(does.name)
        kernel_waits = does.replace(seconds=found.age if what is Activity.LOCK_FILE else None)
        return held_by(kernel_waits, (openers if what is Activity.LOCK_FILE else lock_holders)(found.path))

    return Wait(does, ask=ask)


def _ray_get(inside: LibraryFrame) -> Wait:
    """Return the wait for a result of Ray, with the actors that have not returned it yet."""
    refs, does = inside.local("object_refs"), ActivityInfo(what=Activity.RAY_GET)
    return Wait(does, ask=(lambda: pending_actors(does, refs)) if type(refs) is list else None)


def _pdb(inside: LibraryFrame) -> Wait:
    return Wait(ActivityInfo(what=Activity.PDB, place=short_place(inside.thread.frames)))


_MESSAGES = {
    ("multiprocessing.queues", "get"): Activity.QUEUE_GET,
    ("multiprocessing.connection", "recv"): Activity.MESSAGE,
    ("multiprocessing.connection", "recv_bytes"): Activity.MESSAGE,
    ("multiprocessing.connection", "poll"): Activity.MESSAGE,
    ("multiprocessing.connection", "wait"): Activity.MESSAGES,
}
"""Functions that wait for data of another process."""

_PLAIN = {
    ("queue", "get"): Activity.QUEUE_GET,
    ("queue", "put"): Activity.QUEUE_PUT,
    ("queue", "join"): Activity.QUEUE_JOIN,
    ("multiprocessing.queues", "put"): Activity.QUEUE_PUT,
    ("multiprocessing.connection", "accept"): Activity.LISTEN,
    ("concurrent.futures._base", "wait"): Activity.FUTURES,
}
"""Functions whose wait is reported without details, except for the name of the object whose method is called."""

_INNERMOST = {
    ("concurrent.futures.thread", "_worker"): Activity.POOL_WORK,
    ("ray._private.worker", "main_loop"): Activity.RAY_IDLE,
}

_RULES: dict[tuple[str, str], Callable[[LibraryFrame], Wait | None]] = {
    ("threading", "wait"): _threading,
    ("threading", "acquire"): _threading,
    ("threading", "join"): _join,
    ("threading", "_shutdown"): _shutdown,
    ("concurrent.futures._base", "result"): _future,
    ("concurrent.futures._base", "exception"): _future,
    **dict.fromkeys(_MESSAGES, _message),
    ("multiprocessing.pool", "get"): _pool_result,
    ("multiprocessing.pool", "wait"): _pool_result,
    ("multiprocessing.pool", "next"): _pool_result,
    ("multiprocessing.process", "join"): _process,
    ("subprocess", "wait"): _popen,
    ("subprocess", "communicate"): _popen,
    ("torch.utils.data.dataloader", "_try_get_data"): _loader,
    ("torch.utils.file_baton", "wait"): _baton,
    ("filelock._api", "acquire"): _file_lock,
    ("filelock._core._lock", "acquire"): _file_lock,  # from release 4 of filelock on
    ("pdb", "interaction"): _pdb,
    ("ray._private.worker", "get_objects"): _ray_get,
    ("selectors", "select"): _loop,
}
"""Functions that return the wait, by module and name of the library function."""
