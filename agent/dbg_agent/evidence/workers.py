"""Processes that multiprocessing has started here: their names, how they have ended, and which one keeps a thread."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from dbg_agent.evidence.ended_workers import Worker
from dbg_agent.frames.variables import attribute
from dbg_agent.host.descriptors import does, waits_in
from dbg_agent.host.process import SystemCall, has_ended
from dbg_agent.process.imports import loaded
from dbg_wire.records.evidence import WaitKind

MAX_WORKERS, MAX_NAMED = 32, 2
"""Workers that are looked at, and those that one sentence names."""

_IDLE = ((WaitKind.CHILD, WaitKind.SOCKET, WaitKind.LOCK), (WaitKind.CHILD, WaitKind.SOCKET), ())
"""Kinds of waits of workers that wait for work; a worker that waits for a lock may do that."""


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


def from_workers(
    text: str, otherwise: str, descriptor: Any = None, among: Collection[int] | None = None
) -> tuple[str, int | None]:
    """Return a text about a message for which a thread waits, with the process that should send it, and that process.

    ``otherwise`` is the end of the text if no process is known. ``descriptor`` is the thread's end of the connection,
    and ``among`` are the workers that may send it.
    """
    known = {one.pid: one for one in workers() if among is None or one.pid in among}
    told = waits_in(SystemCall("read", (descriptor, 0, 0, 0, 0, 0))) if type(descriptor) is int else None
    holder = told[2] if told is not None and len(told) == 3 else None
    if holder is None:
        dead = next((one for one in known.values() if one.status), None)
        if dead is not None:
            return f"{text} from its child {dead.title}, which {dead.end}", None
        busy = _busy([pid for pid, one in known.items() if one.status is None and not has_ended(pid)])
        if len(busy) > 1:
            named = ", ".join(f"{known[pid].title}, which {does}" for pid, does in list(busy.items())[:MAX_NAMED])
            more = f" and {len(busy) - MAX_NAMED} more" if len(busy) > MAX_NAMED else ""
            return f"{text} from one of its children: {named}{more}", None
        holder = next(iter(busy), _parent())
    if holder in known:
        return f"{text} from its child {known[holder].title}", holder
    whom = f"its parent (process {holder})" if holder == _parent() else f"the process {holder}"
    return (f"{text} from {whom}" if holder is not None else f"{text}{otherwise}"), holder


def _busy(pids: Sequence[int]) -> dict[int, str]:
    """Return what those of some processes do that don't wait for work; all if all may wait for it."""
    seen = {pid: does(pid)[:2] for pid in pids}
    for idle in _IDLE:
        found = {pid: text for pid, (kind, text) in seen.items() if kind not in idle}
        if found:
            return found
    return {}


def _parent() -> int | None:
    process = loaded("multiprocessing.process")
    parent = process.parent_process() if process is not None else None
    return None if parent is None else parent.pid
