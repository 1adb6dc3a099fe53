"""Processes that work for this one: those of multiprocessing that it has started, and the actors of Ray."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from dbg_agent.frames.variables import attribute
from dbg_agent.host.descriptors import Waited, does, waits_in
from dbg_agent.host.process import SystemCall, has_ended, named
from dbg_agent.process.imports import loaded
from dbg_agent.process.threads import within
from dbg_wire.records.evidence import Doing, NamedProcess, Relation, WaitKind
from dbg_wire.records.record import fitted

MAX_WORKERS = 32
"""Workers that are looked at."""

_IDLE = ((WaitKind.CHILD, WaitKind.SOCKET, WaitKind.LOCK), (WaitKind.CHILD, WaitKind.SOCKET), ())
"""Kinds of waits of workers that wait for work; a worker that waits for a lock may do that."""


class Worker(NamedTuple):
    """A process of multiprocessing; ``status`` is None while it runs, and negative for a signal."""

    pid: int
    name: str
    status: int | None


def child(pid: int, name: str, status: int | None = None) -> NamedProcess:
    """Return a child process with the name that multiprocessing gives it."""
    return fitted(NamedProcess, pid=pid, relation=Relation.CHILD, name=name, status=status)


def workers() -> list[Worker]:
    """Return the workers that this process has started and still refers to, the first one first; from any thread."""
    process = loaded("multiprocessing.process")
    found = []
    with suppress(Exception):  # another release of Python keeps them in another way
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
        # With WNOWAIT the process stays one for whose end its parent can wait.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    return None


def from_workers(wait: Doing, descriptor: Any = None, among: Collection[int] | None = None) -> Waited:
    """Return a wait for a message with the processes that may send it, and the only one of them.

    ``descriptor`` is the thread's end of the connection, and ``among`` are the workers that may send it.
    """
    known = {one.pid: one for one in workers() if among is None or one.pid in among}
    told = waits_in(SystemCall("read", (descriptor, 0, 0, 0, 0, 0))) if type(descriptor) is int else None
    holder = told[1] if told is not None else None
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
    """Return those of some processes that don't wait for work; all if all may wait for it."""
    kinds = {pid: does(pid)[0].kind for pid in pids}
    found = ([pid for pid, kind in kinds.items() if kind not in idle] for idle in _IDLE)
    return next(filter(None, found), [])


def _parent() -> int | None:
    process = loaded("multiprocessing.process")
    parent = process.parent_process() if process is not None else None
    return None if parent is None else parent.pid


ASKING_SECONDS = 0.5
"""Seconds that Ray's tables may take. They are in another process, which usually answers in a millisecond."""

MAX_ACTORS = 8
"""Pending results whose actors are looked up."""


def pending_actors(wait: Doing, refs: Sequence[Any]) -> Waited:
    """Return a wait with the actors that are to return these results and have not yet.

    They are none for tasks, or if Ray is silent. The process is that of the first one on this host.
    """
    worker: Any = sys.modules.get("ray._private.worker")
    tables: Any = sys.modules.get("ray._private.state")
    none: list[tuple[str, int]] = []
    rows = within(ASKING_SECONDS, lambda: _pending(worker, tables, list(dict.fromkeys(refs))), none)
    processes = tuple(named(pid) if pid else NamedProcess(pid=0) for _, pid in rows)
    names = tuple(name for name, _ in rows)
    told = fitted(Doing, what=wait.what, names=names, processes=processes)
    return told, next((pid for _, pid in rows if pid), None)


def _pending(worker: Any, tables: Any, refs: list[Any]) -> list[tuple[str, int]]:
    """Return the actors' classes, and their processes, 0 for one that is on another host or does not live."""
    try:
        own = worker.global_worker
        _, pending = own.core_worker.wait(refs, len(refs), 0, False)
        ids = dict.fromkeys(ref.task_id().actor_id() for ref in pending[:MAX_ACTORS])
        rows = [tables.actors(one.hex()) for one in ids if not one.is_nil()]
        return [(str(row["ActorClassName"]), _pid(row, own.node_ip_address)) for row in rows]
    except Exception:  # another release of Ray has other tables, or their process has ended
        return []


def _pid(row: Any, here: str) -> int:
    return int(row["Pid"]) if row["State"] == "ALIVE" and str(row["Address"]["IPAddress"]) == here else 0
