"""Whether a process can be made a rank, found out without touching it."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

from dbg_client.adopt.errors import CantAdopt, NoSuchProcess
from dbg_client.adopt.found import is_guard, is_ours
from dbg_client.adopt.gdb import find_gdb, is_our_gdb, loses_registers
from dbg_client.adopt.inject import can_remote_exec
from dbg_client.adopt.process import (
    ProcessInfo,
    all_pids,
    is_tried,
    mappings,
    may_trace,
    read_process,
    same_files,
    sleeps_for_good,
    yama_scope,
)
from dbg_client.adopt.python import TargetPython, find_python

OTHERS_SECONDS = 15.0
"""Seconds for which another adoption of the process is waited for; it stops it for tenths of a second."""

OLDEST = (3, 11)
"""The oldest Python on which our package runs."""

_WITHOUT_GDB = "`apt install gdb`, `dnf install gdb` or conda's gdb mends that; `py-spy dump` shows a stack without it"


@dataclass(frozen=True, slots=True)
class Ready:
    """A process that can be made a rank, and what is known of its Python. ``gdb`` is None where there is none."""

    seen: ProcessInfo
    python: TargetPython
    gdb: str | None


def examine(pid: int) -> Ready:
    """Return what is needed to make the process a rank. Blocks for files of ``/proc``.

    Raises CantAdopt with the first thing that forbids it.
    """
    seen = _look_alone(pid)
    who = f"process {pid}"
    if seen is None:
        raise NoSuchProcess(who, "does not exist on this host", "`dbg-attach adopt --mine` finds those of a job")
    _refuse_state(seen, who)
    _refuse_place(seen, who)
    mapped = _read_mappings(seen, who)
    python = find_python(pid, mapped)
    if python is None:
        raise CantAdopt(who, f"is no Python program, but {seen.name}", "name the Python process that it has started")
    _refuse_python(python, who)
    if is_ours(seen.command):
        raise CantAdopt(who, "belongs to dbg-broker itself", "name a process of the job")
    if any(is_guard(other.argv) for other in _children(pid)):
        raise CantAdopt(who, "is a rank already", "`dbg-attach list` shows it, if its broker is this one")
    gdb = find_gdb()
    _refuse_ways(python, who, gdb)
    return Ready(seen, python, gdb)


def _look_alone(pid: int) -> ProcessInfo | None:
    """Look at a process once no other adoption has it stopped any more."""
    deadline = time.monotonic() + OTHERS_SECONDS
    seen = read_process(pid)
    while seen is not None and seen.tracer and time.monotonic() < deadline:
        other = read_process(seen.tracer)
        if other is not None and not is_our_gdb(other.argv):
            break
        # Nothing tells of the end of a tracer.
        time.sleep(0.05)
        seen = read_process(pid)
    return seen


def _refuse_state(seen: ProcessInfo, who: str) -> None:
    if seen.pid == os.getpid():
        raise CantAdopt(who, "is this dbg-attach itself", "name a process of the job")
    if seen.state in "ZX":
        raise CantAdopt(who, "has ended, and its parent has not fetched its status", "nothing of it is left to look at")
    if seen.tracer:
        other = read_process(seen.tracer)
        name = f" ({other.name})" if other is not None else ""
        raise CantAdopt(
            who, f"is traced by process {seen.tracer}{name}", "end that one, or let it detach, and try again"
        )
    if seen.state in "Tt":
        raise CantAdopt(who, "is suspended", f"`kill -CONT {seen.pid}` lets it go on; then try again")
    if os.geteuid() != seen.uid:
        remedy = f"adopt it as that user, such as by `sudo -u '#{seen.uid}'`, with a broker that user reaches"
        raise CantAdopt(who, f"belongs to user {seen.uid}", remedy)


def _refuse_place(seen: ProcessInfo, who: str) -> None:
    inside = "run `dbg-attach adopt` inside, as by `docker exec`, `kubectl exec` or `apptainer exec instance://`"
    try:
        if len(seen.numbers) > 1 or not same_files(seen.pid):
            raise CantAdopt(who, "is in a container, or sees other files than this terminal", inside)
    except OSError:
        raise _forbidden(who) from None
    if not may_trace(seen.pid):
        raise _forbidden(who)
    if sleeps_for_good(seen.pid):
        why = "waits in the kernel where no debugger can stop it, as for a file system that does not answer"
        raise CantAdopt(who, why, f"`cat /proc/{seen.pid}/stack` as root shows where; try again when it is back")


def _forbidden(who: str) -> CantAdopt:
    """Return why the kernel forbids tracing a process."""
    scope = yama_scope()
    remedy = "an administrator types `sysctl kernel.yama.ptrace_scope=0`"
    if scope == 3:
        return CantAdopt(
            who, "can't be traced: kernel.yama.ptrace_scope is 3", "only a reboot of the node changes that"
        )
    if scope == 2:
        return CantAdopt(who, "can't be traced by its user: kernel.yama.ptrace_scope is 2", remedy)
    if scope == 1:
        return CantAdopt(who, "may be traced by its parents alone: kernel.yama.ptrace_scope is 1", remedy)
    why = "can't be traced: the container or the node forbids ptrace, or the process has changed its user"
    return CantAdopt(who, why, "start the container with `--cap-add SYS_PTRACE`, or ask an administrator")


def _read_mappings(seen: ProcessInfo, who: str) -> dict[str, int]:
    try:
        return mappings(seen.pid)
    except OSError:
        raise _forbidden(who) from None


def _refuse_python(python: TargetPython, who: str) -> None:
    if python.is_musl:
        raise CantAdopt(who, "uses musl, in which this has not been tried", "start it by `python -m dbg_agent`")
    if python.version is None:
        raise CantAdopt(who, "does not show its Python's version", "start it by `python -m dbg_agent`")
    shown = f"{python.version[0]}.{python.version[1]}"
    if python.version < OLDEST:
        raise CantAdopt(who, f"runs Python {shown}, and 3.11 is the oldest that we run on", "`py-spy dump` may show it")
    if python.free_threaded:
        why = f"runs a Python {shown} without the interpreter's lock, in which this has not been tried"
        raise CantAdopt(who, why, "start it by `python -m dbg_agent`")


def _refuse_ways(python: TargetPython, who: str, gdb: str | None) -> None:
    """Raise CantAdopt if neither gdb nor Python itself brings code into the process."""
    if can_remote_exec(python.version):
        return
    if gdb is None:
        raise CantAdopt(who, "can only be adopted with gdb, which is not installed here", _WITHOUT_GDB)
    if not is_tried(os.uname().machine):
        raise CantAdopt(who, f"runs on {os.uname().machine}, where this has not been tried", _WITHOUT_GDB)
    if loses_registers(gdb):
        why = "runs on a processor with AMX, whose registers a gdb before 14 does not put back"
        raise CantAdopt(who, why, "install gdb 14 or newer, as conda has it")
    if python.missing:
        why = f"has a Python that was stripped of {python.missing[0]} and others, so that nothing can be called in it"
        raise CantAdopt(who, why, "start it by `python -m dbg_agent`")


def _children(pid: int) -> list[ProcessInfo]:
    found = [read_process(other) for other in all_pids()]
    return [other for other in found if other is not None and other.parent == pid]


def fits_ours(python: TargetPython) -> bool:
    """Tell whether our own package, as it is here, runs in that Python."""
    return python.version == sys.version_info[:2]
