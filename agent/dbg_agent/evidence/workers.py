"""Processes that multiprocessing has started here: their names, how they have ended, and which one keeps a thread."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dbg_agent.evidence.descriptors import does, waits_in
from dbg_agent.evidence.ended_workers import Worker
from dbg_agent.evidence.process import SystemCall, has_ended
from dbg_agent.evidence.variables import attribute
from dbg_agent.process.imports import loaded
from dbg_wire.records.evidence import WaitKind

MAX_WORKERS, MAX_NAMED = 32, 2
"""Workers that are looked at, and those that one sentence names."""

_IDLE = ((WaitKind.CHILD, WaitKind.SOCKET), (WaitKind.LOCK,))
"""Kinds of waits in which a worker may be that waits for work, the likeliest first."""


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
    try:
        # With WNOWAIT the process stays one for whose end its parent can wait.
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return None
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def from_workers(text: str, otherwise: str, descriptor: Any = None) -> tuple[str, int | None]:
    """Return a text about a message for which a thread waits, with the process that should send it, and that process.

    ``otherwise`` is the end of the text if no process is known. ``descriptor`` is the thread's end of the connection.
    """
    all_workers = workers()
    living = {one.pid: one for one in all_workers if one.status is None and not has_ended(one.pid)}
    told = waits_in(SystemCall("read", (descriptor, 0, 0, 0, 0, 0))) if type(descriptor) is int else None
    holder = told[2] if told is not None and len(told) == 3 else None
    dead = next((one for one in all_workers if one.status), None)
    if holder is None and dead is not None:
        return f"{text} from its child {dead.title}, which {dead.end}", None
    busy: Sequence[int] = ()
    if holder is None:
        busy = _busy(list(living))
        holder = busy[0] if len(busy) == 1 else None
    if holder in living:
        return f"{text} from its child {living[holder].title}", holder
    parent = _parent()
    if parent is not None and (holder == parent or not living):
        return f"{text} from its parent (process {parent})", parent
    if holder is not None:
        return f"{text} from the process {holder}", holder
    named = ", ".join(living[pid].title for pid in busy[:MAX_NAMED])
    more = f" and {len(busy) - MAX_NAMED} more" if len(busy) > MAX_NAMED else ""
    return (f"{text} from one of its children {named}{more}" if named else f"{text}{otherwise}"), None


def _busy(pids: Sequence[int]) -> list[int]:
    """Return those of some processes that don't wait for work; all if all may."""
    kinds = {pid: does(pid)[0] for pid in pids} if len(pids) > 1 else dict.fromkeys(pids)
    for idle in (_IDLE[0] + _IDLE[1], _IDLE[0], ()):
        found = [pid for pid in pids if kinds[pid] not in idle]
        if found:
            return found
    return []


def _parent() -> int | None:
    process = loaded("multiprocessing.process")
    parent = process.parent_process() if process is not None else None
    return None if parent is None else parent.pid
