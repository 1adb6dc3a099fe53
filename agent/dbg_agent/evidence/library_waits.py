"""What a thread waits for in the functions of Python's library, and of torch, that wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

from dbg_agent.evidence.ended_threads import duration, who_used
from dbg_agent.evidence.ended_workers import ended_in_pools
from dbg_agent.evidence.locks import import_lock_owner
from dbg_agent.evidence.pools import busy_pool, pool_processes, worker_for
from dbg_agent.evidence.ray import pending_actors
from dbg_agent.evidence.stacks import SeenThread, module_of, short_place
from dbg_agent.evidence.workers import from_workers
from dbg_agent.frames.expressions import call_site
from dbg_agent.frames.stacks import is_users_file
from dbg_agent.frames.variables import UNKNOWN, attribute, is_a, item, local
from dbg_agent.host.descriptors import held_by, lock_holders, looked_up, openers, waits_in
from dbg_agent.host.process import command_of, has_ended, system_call
from dbg_wire.errors import printable
from dbg_wire.records.evidence import WaitKind

MAX_WORKERS, MAX_TOLD = 32, 3
"""Worker processes that one sentence names, and those of which it tells what they do."""

LOOP_TEXT = "waits for events of its asyncio loop"


class Wait(NamedTuple):
    """What a thread waits for; ``others`` are the threads without whose going on it will not end.

    ``holder`` is the process that holds it. ``ask`` returns a better text and the holder, for which it asks the kernel:
    while it does, other threads take the interpreter. ``is_sure`` says that the kernel or the interpreter tells it.
    """

    kind: WaitKind
    text: str
    others: frozenset[int] = frozenset()
    ask: Callable[[], tuple[str, int | None]] | None = None
    holder: int | None = None
    is_sure: bool = False
    loop: Any = None
    """The event loop of asyncio in which the thread waits."""


class Inside(NamedTuple):
    """A frame of a library in which a thread is, with the threads of the process."""

    thread: SeenThread
    at: int
    threads: Sequence[SeenThread]

    @property
    def frame(self) -> FrameType:
        """Return the frame."""
        return self.thread.frames[self.at]

    def local(self, name: str) -> Any:
        """Return a variable of the frame."""
        return local(self.frame, name) if self.thread.is_readable else UNKNOWN

    @property
    def named(self) -> str:
        """Return how the calling frame names the object whose method this is, with a blank before; or nothing."""
        for frame in self.thread.frames[self.at + 1 :]:
            site = call_site(frame, reads=False)
            text = "" if site is None else site.called.text if site.is_with else site.called.owner_text
            # Another method of the same object may have called it, as `wait_for` does.
            if text != "self" or module_of(frame) != module_of(self.frame):
                return f" {printable(text)}" if text and text not in ("self", "super") else ""
        return ""

    def title(self, ident: int) -> str:
        """Return a thread's name."""
        return next((f"thread {thread.name}" for thread in self.threads if thread.ident == ident), "an unknown thread")


Rule = Callable[[Inside], "Wait | None"]

Ask = Callable[[], "tuple[str, int | None] | None"]
"""Asks the kernel for a text and the holder; None if it does not tell."""


def library_wait(thread: SeenThread, threads: Sequence[SeenThread]) -> Wait | None:
    """Return the wait of the outermost library call made by user code; None if none of its functions waits."""
    found = None
    for index, frame in enumerate(thread.frames):
        if is_users_file(frame.f_code.co_filename):
            break
        rule = _RULES.get((module_of(frame), frame.f_code.co_name))
        told = rule(Inside(thread, index, threads)) if rule is not None else None
        if told is not None:
            found = told
    return found


def _of_class(*choices: tuple[str, Rule]) -> Rule:
    """Return a rule that depends on the class of ``self``, by the names of classes of :mod:`threading`."""

    def rule(inside: Inside) -> Wait | None:
        owner = inside.local("self")
        if owner is UNKNOWN:
            return Wait(WaitKind.LOCK, f"waits in {inside.frame.f_code.co_name}() of threading{inside.named}")
        for name, one in choices:
            if is_a(owner, getattr(threading, name)):
                return one(inside)
        return None

    return rule


def _says(kind: WaitKind, text: str) -> Rule:
    """Return a rule with a sentence, in which ``{}`` stands for the object's name."""
    return lambda inside: Wait(kind, text.format(inside.named))


def _of_queue(text: str) -> Rule:
    """Return a rule for a method of a queue, which names a thread that used the queue and has ended."""
    return lambda inside: Wait(WaitKind.DATA, f"{text.format(inside.named)}{who_used(inside.local('self'))}")


def _innermost(kind: WaitKind, text: str) -> Rule:
    """Return a rule for a function that waits itself, but does not while it calls others."""
    return lambda inside: Wait(kind, text) if inside.at == 0 else None


def _barrier(inside: Inside) -> Wait:
    barrier = inside.local("self")
    there, parties = attribute(barrier, "_count"), attribute(barrier, "_parties")
    counted = f", where {there} of {parties} are" if type(there) is int and type(parties) is int else ""
    return Wait(WaitKind.LOCK, f"waits at the barrier{inside.named}{counted}")


def _join(inside: Inside) -> Wait:
    joined = inside.local("self")
    ident = attribute(joined, "_ident") if is_a(joined, threading.Thread) else UNKNOWN
    name = attribute(joined, "_name")
    title = f"thread {printable(name[:80])}" if type(name) is str else "another thread"
    others: frozenset[int] = frozenset()
    if type(ident) is int and inside.local("timeout") is None:
        others = frozenset({ident})
    return Wait(WaitKind.LOCK, f"waits for the end of {title}", others, is_sure=bool(others))


def _shutdown(inside: Inside) -> Wait:
    awaited = [one for one in inside.threads if not one.is_daemon and not one.is_main]
    names = ", ".join(one.name for one in awaited[:MAX_WORKERS])
    if not awaited:
        return Wait(WaitKind.LOCK, "has ended its program, and waits for other threads")
    what = "thread" if len(awaited) == 1 else "threads"
    text = f"has ended its program but for {what} {names}"
    return Wait(WaitKind.LOCK, text, frozenset(one.ident for one in awaited), is_sure=True)


def _import(inside: Inside) -> Wait:
    name, owner = import_lock_owner(inside.local("self"))
    module = f"the module {printable(name)}"
    if owner is None or owner == inside.thread.ident:
        return Wait(WaitKind.LOCK, f"waits for the import of {module}")
    return Wait(WaitKind.LOCK, f"waits for {inside.title(owner)} to import {module}", frozenset({owner}), is_sure=True)


def _popen(inside: Inside) -> Wait:
    # Without pipes, and once they have ended, communicate() waits in wait().
    within = {frame.f_code.co_name for frame in inside.thread.frames[: inside.at + 1]}
    pid = attribute(inside.local("self"), "pid")
    if "wait" in within:
        return _of_process("waits for", pid)
    native = inside.thread.native
    return _of_process("reads the output of", pid, lambda: _left_pipe(pid, native))


def _left_pipe(pid: int, native: int | None) -> tuple[str, int | None] | None:
    """Say which process has the pipe of one that has ended, of which it is a child; None if it isn't known."""
    call = system_call(native) if native is not None and has_ended(pid) else None
    told = waits_in(call) if call is not None else None
    holder = told[2] if told is not None and len(told) == 3 else None
    if holder is None or holder == pid:
        return None
    return f"reads a pipe that the process {pid} has left to the process {command_of(holder)}", holder


def _message(text: str, otherwise: str = "", kind: WaitKind = WaitKind.CHILD) -> Rule:
    """Return a rule for a message from another process: a child that this one has started, or its parent."""

    def rule(inside: Inside) -> Wait:
        named, owner = text.format(inside.named), inside.local("self")
        used = who_used(owner)
        if used:
            return Wait(kind, f"{named}{used}")
        ends = (owner, attribute(owner, "_reader"))
        descriptor = next((one for end in ends if type(one := attribute(end, "_handle")) is int), None)
        return Wait(kind, f"{named}{otherwise}", ask=lambda: from_workers(named, otherwise, descriptor))

    return rule


def _process(inside: Inside) -> Wait:
    child = inside.local("self")
    pid, name = attribute(attribute(child, "_popen"), "pid"), attribute(child, "_name")
    if type(pid) is not int or type(name) is not str:
        return Wait(WaitKind.CHILD, "waits for the end of a child process")
    text = f"waits for the end of its child {printable(name[:60])} (process {pid})"
    return Wait(WaitKind.CHILD, text, ask=lambda: (text, pid))


def _of_process(verb: str, pid: Any, other: Ask | None = None) -> Wait:
    if type(pid) is not int:
        return Wait(WaitKind.CHILD, f"{verb} a child process")

    def ask() -> tuple[str, int | None]:
        found = other() if other is not None else None
        return found or (f"{verb} the process {pid if has_ended(pid) else command_of(pid)}", pid)

    return Wait(WaitKind.CHILD, f"{verb} the process {pid}", ask=ask)


def _loader(inside: Inside) -> Wait:
    """Name the worker process from which the next batch is to come, or all of them where any may bring it."""
    loader = inside.local("self")
    workers = attribute(loader, "_workers")
    pids = [attribute(attribute(item(workers, at), "_popen"), "pid") for at in range(MAX_WORKERS)]
    known = [pid for pid in pids if type(pid) is int]
    if not known:
        return Wait(WaitKind.DATA, "waits for a batch of DataLoader's worker processes")
    # Batches come in the order of their numbers: each has the number of its worker, before it is there.
    task = item(attribute(loader, "_task_info"), attribute(loader, "_rcvd_idx"))
    at = item(task, 0) if type(task) is tuple and len(task) == 1 else UNKNOWN
    if attribute(loader, "_in_order") is False:
        at = UNKNOWN
    at = 0 if len(known) == 1 else at
    if type(at) is int and 0 <= at < len(known):
        pid = known[at]
        text = f"waits for DataLoader's worker {at} (process {pid})"
        return Wait(WaitKind.DATA, text, ask=lambda: (text, pid))
    batch = "waits for a batch of DataLoader"
    return Wait(WaitKind.DATA, batch, ask=lambda: from_workers(batch, "", among=known))


def _loop(inside: Inside) -> Wait | None:
    outer = inside.thread.frames[inside.at + 1 : inside.at + 2]
    if outer and outer[0].f_code.co_name == "_run_once":
        return Wait(WaitKind.LOOP, LOOP_TEXT, loop=local(outer[0], "self") if inside.thread.is_readable else None)
    return None


def _future(inside: Inside) -> Wait:
    future = inside.local("self")
    state = attribute(future, "_state")
    told = f", which is {printable(state.lower())}" if type(state) is str else ""
    text = f"waits for the result of the future{inside.named}"
    if future is UNKNOWN or inside.local("timeout") is not None:
        return Wait(WaitKind.LOCK, f"{text}{told}")
    worker = worker_for(future, inside.threads)
    if worker is not None:
        return Wait(WaitKind.LOCK, f"{text} in thread {worker.name}", frozenset({worker.ident}), is_sure=True)
    processes = pool_processes(future, inside.threads)
    if processes:
        return Wait(WaitKind.CHILD, f"{text}{told}", ask=lambda: from_workers(text, told, among=processes))
    busy = busy_pool(future, inside.threads)
    if not busy:
        return Wait(WaitKind.LOCK, f"{text}{told}")
    text = "waits for work for which its pool has no free thread"
    return Wait(WaitKind.LOCK, text, frozenset(one.ident for one in busy), is_sure=True)


def _pool_result(inside: Inside) -> Wait:
    ended = " and ".join(f"{one.title} {one.end}" for one in ended_in_pools()[-MAX_TOLD:])
    text = "waits for a result of a pool"
    return Wait(WaitKind.CHILD, f"{text}, whose worker {ended} and was replaced" if ended else f"{text} of processes")


def _file_lock(inside: Inside) -> Wait:
    """Name the file of a ``FileLock``, which asks for its lock again and again, and who holds it."""
    # Before release 3.30 the path is as the program has given it. The lock's own attributes are another thread's.
    found = (inside.local(name) for name in ("canonical_path", "lock_filename"))
    path = next((one for one in found if type(one) is str), None)
    if path is None:
        return Wait(WaitKind.FILE, f"waits for the file lock{inside.named}")
    path = os.path.abspath(path)  # noqa: PTH100 - no pathlib in a rank
    text = f"waits for the lock of the file {printable(path)}"
    is_soft = "SoftFileLock" in type(inside.local("self")).__name__
    find = openers if is_soft else lock_holders

    def ask() -> tuple[str, int | None]:
        found = looked_up(path)
        told, holder = held_by(text, find(found.path))
        return (told, holder) if told != text else (f"{text}{_nobodys(found.age) if is_soft else ''}", None)

    return Wait(WaitKind.FILE, text, ask=ask)


def _baton(inside: Inside) -> Wait:
    path = attribute(inside.local("self"), "lock_file_path")
    if type(path) is not str:
        return Wait(WaitKind.FILE, "waits until a file of torch's FileBaton is gone")
    path = os.path.abspath(path)  # noqa: PTH100
    text = f"waits until the file {printable(path)} is gone (FileBaton)"

    def ask() -> tuple[str, int | None]:
        found = looked_up(path)
        told, holder = held_by(text, openers(found.path))
        return (told, holder) if told != text else (f"{text}{_nobodys(found.age)}", None)

    return Wait(WaitKind.FILE, text, ask=ask)


def _nobodys(age: float | None) -> str:
    """Say that nobody has a file, by which a lock is held as long as it exists."""
    old = f", made {duration(age)} ago" if age is not None else ""
    return f"{old}, open in no process here"


def _ray_get(inside: Inside) -> Wait:
    """Name the actor of Ray whose result a thread waits for."""
    refs, text = inside.local("object_refs"), "waits for results in ray.get"

    def ask() -> tuple[str, int | None]:
        actors = pending_actors(refs)
        more = f" and {len(actors) - MAX_TOLD} more" if len(actors) > MAX_TOLD else ""
        titles = " and ".join(title for title, _ in actors[:MAX_TOLD])
        what = f"the actor{'s' * (len(actors) > 1)} {titles}{more}"
        holder = next((pid for _, pid in actors if pid is not None), None)
        return f"waits in ray.get for {what}" if actors else text, holder

    return Wait(WaitKind.CHILD, text, ask=ask if type(refs) is list else None)


def _pdb(inside: Inside) -> Wait:
    return Wait(WaitKind.FILE, f"stands in pdb ({short_place(inside.thread.frames)}), and waits for a person to type")


_EVENT = _says(WaitKind.LOCK, "waits for the event{} to be set")
_CONDITION = _says(WaitKind.LOCK, "waits for the condition{} to be notified")
_SEMAPHORE = _says(WaitKind.LOCK, "waits for the semaphore{}; which threads have it is not known")
_GET = _of_queue("waits for an item of the queue{}")
_PUT = _of_queue("waits for room in the queue{}")
_MESSAGE = _message("waits for a message of the connection{}", " to another process")

_RULES: dict[tuple[str, str], Rule] = {
    ("threading", "wait"): _of_class(("Event", _EVENT), ("Condition", _CONDITION), ("Barrier", _barrier)),
    ("threading", "acquire"): _of_class(("Semaphore", _SEMAPHORE)),
    ("threading", "join"): _of_class(("Thread", _join)),
    ("threading", "_shutdown"): _shutdown,
    ("queue", "get"): _GET,
    ("queue", "put"): _PUT,
    ("queue", "join"): _of_queue("waits until all items of the queue{} are done"),
    ("concurrent.futures._base", "result"): _future,
    ("concurrent.futures._base", "exception"): _future,
    ("concurrent.futures._base", "wait"): _says(WaitKind.LOCK, "waits for the results of futures"),
    ("concurrent.futures.thread", "_worker"): _innermost(WaitKind.DATA, "waits for work of its pool of threads"),
    ("multiprocessing.queues", "get"): _message("waits for an item of the queue{}", kind=WaitKind.DATA),
    ("multiprocessing.queues", "put"): _PUT,
    ("multiprocessing.pool", "get"): _pool_result,
    ("multiprocessing.pool", "wait"): _pool_result,
    ("multiprocessing.pool", "next"): _pool_result,
    ("multiprocessing.connection", "recv"): _MESSAGE,
    ("multiprocessing.connection", "recv_bytes"): _MESSAGE,
    ("multiprocessing.connection", "poll"): _MESSAGE,
    ("multiprocessing.connection", "wait"): _message("waits for messages", " of other processes"),
    ("multiprocessing.connection", "accept"): _says(WaitKind.SOCKET, "waits for a connection to the listener{}"),
    ("multiprocessing.process", "join"): _process,
    ("subprocess", "wait"): _popen,
    ("subprocess", "communicate"): _popen,
    ("torch.utils.data.dataloader", "_try_get_data"): _loader,
    ("torch.utils.file_baton", "wait"): _baton,
    ("filelock._api", "acquire"): _file_lock,
    ("filelock._core._lock", "acquire"): _file_lock,  # from release 4 on
    ("pdb", "interaction"): _pdb,
    ("ray._private.worker", "get_objects"): _ray_get,
    ("ray._private.worker", "main_loop"): _innermost(WaitKind.DATA, "waits for a call of its actor or a task of Ray"),
    ("selectors", "select"): _loop,
    ("importlib._bootstrap", "acquire"): _import,
    ("_frozen_importlib", "acquire"): _import,
}
"""What functions wait for, by their module and name."""
