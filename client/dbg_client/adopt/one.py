"""Adoption of one process: check for obstacles, inject the code, read its answer.

There are two ways. Python 3.14 and newer can make a process of the same version run a file. gdb can call functions in a
waiting process. A processor with AMX needs gdb 14 or newer.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from dbg_client.adopt.gdb import DebuggerFailed, find_gdb, loses_registers
from dbg_client.adopt.inject import Injection, Pipe, can_remote_exec, run_remotely
from dbg_client.adopt.payload import OURS, Answer, Outcome, code_to_adopt
from dbg_client.adopt.process import (
    CantAdopt,
    NoSuchProcess,
    ProcessInfo,
    TargetPython,
    find_python,
    is_ours,
    is_tried,
    mappings,
    may_trace,
    read_process,
    same_files,
    sleeps_for_good,
    system_call,
)
from dbg_dial.endpoint import RENDEZVOUS_FILE
from dbg_dial.home import BROKER, HOME, TOKEN, TOKEN_FILE

OLDEST = (3, 11)
"""The oldest Python version that our package supports."""


@dataclass(frozen=True, slots=True)
class Target:
    """A process that can become a rank, with the facts about its Python. ``gdb`` is None if gdb is not installed."""

    seen: ProcessInfo
    python: TargetPython
    gdb: str | None

    @property
    def needs_gdb(self) -> bool:
        """Whether gdb is needed, because Python itself cannot run our code in this process."""
        return not can_remote_exec(self.python.version)


Obstacle = tuple[bool, str, str]
"""Whether an obstacle to adoption is present, its description, and a remedy."""


def examine(pid: int) -> Target:
    """Check that a process can become a rank, and return its facts. Blocks while it reads ``/proc``; changes nothing.

    Raises CantAdopt with the first obstacle.
    """
    seen = read_process(pid)
    if seen is None:
        remedy = "`dbg-attach adopt --mine` finds the processes of a job"
        raise NoSuchProcess(f"process {pid}", "does not exist on this host", remedy)
    _refuse(pid, _of_process(seen))
    python = find_python(pid, mappings(pid))
    if python is None:
        what = f"is not a Python program, but {seen.name}"
        raise CantAdopt(f"process {pid}", what, "name the Python process that it has started")
    target = Target(seen, python, find_gdb())
    _refuse(pid, _of_python(target))
    return target


def _refuse(pid: int, hindrances: Iterator[Obstacle]) -> None:
    for is_there, why, remedy in hindrances:
        if is_there:
            raise CantAdopt(f"process {pid}", why, remedy)


def _of_process(seen: ProcessInfo) -> Iterator[Obstacle]:
    """Yield possible obstacles in the process, the most basic first. The caller stops at the first real obstacle."""
    pid = seen.pid
    yield pid == os.getpid(), "is this dbg-attach itself", "name a process of the job"
    ended = "has ended, but its parent has not reaped it"
    yield seen.state in "ZX", ended, "nothing of it is left to inspect"
    traced = f"is traced by process {seen.tracer}"
    yield seen.tracer > 0, traced, "end or detach that process, then try again"
    yield seen.state in "Tt", "is suspended", f"resume it by `kill -CONT {pid}`, then try again"
    su = f"adopt it as that user (`sudo -u '#{seen.uid}'`), with a broker that this user can reach"
    yield os.geteuid() != seen.uid, f"belongs to user {seen.uid}", su
    inside = "run `dbg-attach adopt` inside, such as with `docker exec`, `kubectl exec` or `apptainer exec instance://`"
    allow = "an administrator can set kernel.yama.ptrace_scope to 0, and a container needs `--cap-add SYS_PTRACE`"
    yield not may_trace(pid), "can't be traced by its user, because the kernel forbids it", allow
    yield not same_files(pid), "is in a container, or sees other files than this terminal", inside
    asleep = "waits in the kernel where no debugger can stop it, such as for a file system that does not answer"
    yield sleeps_for_good(pid), asleep, f"`cat /proc/{pid}/stack` as root shows where; try again when that wait is over"


def _of_python(target: Target) -> Iterator[Obstacle]:
    """Yield possible obstacles to running code in this Python, the most basic first."""
    seen, python, machine = target.seen, target.python, os.uname().machine
    anew = "start it by `python -m dbg_agent`"
    yield python.is_musl, "uses musl, which is untested", anew
    yield python.version is None, "does not show its Python's version", anew
    version = python.version or OLDEST
    runs = f"runs Python {version[0]}.{version[1]}"
    yield version < OLDEST, f"{runs}, and 3.11 is the oldest supported version", "`py-spy dump` may show its stack"
    free = f"{runs} without the interpreter's lock, which is untested"
    yield python.free_threaded, free, anew
    yield is_ours(seen.command), "belongs to dbg-broker itself", "name a process of the job"
    if not target.needs_gdb:
        return
    without = "install gdb by apt, dnf or conda; without it, `py-spy dump` shows a stack"
    yield target.gdb is None, "can only be adopted with gdb, which is not installed here", without
    yield not is_tried(machine), f"runs on {machine}, which is untested", anew
    amx = "runs on a processor with AMX, whose registers a gdb before 14 does not restore"
    yield loses_registers(target.gdb or ""), amx, "install gdb 14 or newer, such as from conda"


def folders_of_ours() -> list[str]:
    """Return the distinct folders on this host that contain a rank's packages. Imports no package."""
    found: dict[str, None] = {}
    for name in OURS:
        spec = find_spec(name)
        if spec is not None and spec.origin:
            place = Path(spec.origin).absolute()
            found[str(place.parents[1] if place.stem == "__init__" else place.parent)] = None
    return list(found)


def adopt_one(pid: int, variables: Mapping[str, str]) -> Answer:
    """Turn a process into a rank, and return its answer. Blocks, usually for a few seconds.

    ``variables`` locate the broker. Raises CantAdopt if the process is unchanged, and DebuggerFailed if gdb fails.
    """
    target = examine(pid)
    _refuse_secrets(target.seen, variables)
    # The packages of this environment work only in the same Python version.
    folders = folders_of_ours() if target.python.version == sys.version_info[:2] else []
    try:
        folder = tempfile.mkdtemp(prefix="dbg-adopt-")
    except OSError as error:
        why = f"can't be adopted, because no directory can be created for its answer ({error.strerror})"
        raise CantAdopt(f"process {pid}", why, "set TMPDIR to another directory") from None
    try:
        with closing(Pipe(folder)) as pipe:
            answer = _run(target, folder, code_to_adopt(pipe.path, variables, folders), pipe)
    except DebuggerFailed:
        if read_process(pid) is None:
            raise NoSuchProcess(f"process {pid}", "has ended", "name the processes that still run") from None
        raise
    finally:
        with suppress(OSError):  # the folder still has the file if the process has not run it yet
            Path(folder).rmdir()
    if answer.outcome is Outcome.FAILED:
        remedy = "the program continues as before; install dbg-broker in its environment, then try again"
        raise CantAdopt(f"process {pid}", f"could not become a rank ({answer.text or 'no reason given'})", remedy)
    return answer


def _refuse_secrets(seen: ProcessInfo, variables: Mapping[str, str]) -> None:
    """Raise CantAdopt if the process would have no token for the broker, and so would retry forever."""
    home = variables.get(HOME)
    has_home = home is not None and (Path(home) / RENDEZVOUS_FILE).exists()
    # If only a home is known, its broker may start later. The process then finds its token in the home.
    has_token = has_home or (home is not None and BROKER not in variables)
    if not has_token and TOKEN_FILE not in variables and not any(map(seen.environ.get, (TOKEN, TOKEN_FILE))):
        why = "would have no token for the broker, because a terminal's own token is not valid for ranks"
        remedy = f"set {HOME} to the broker's home, or start the program with a {TOKEN_FILE} for ranks"
        raise CantAdopt(f"process {seen.pid}", why, remedy)


def _run(target: Target, folder: str, code: str, pipe: Pipe) -> Answer:
    pid = target.seen.pid
    why = "can't run the code now, because its main thread does not return to Python code"
    # If the main thread sleeps in a system call, use gdb, because Python runs the file of `sys.remote_exec` only
    # between instructions.
    if not target.needs_gdb and (target.gdb is None or system_call(pid, pid) is None):
        try:
            answer = run_remotely(pid, folder, code, pipe.answer)
        except (OSError, RuntimeError) as error:
            answer, why = None, f"can't be made to run a file ({error})"
        if answer is not None and answer.outcome is not Outcome.BUSY:
            return answer
    if target.gdb is None:
        raise CantAdopt(f"process {pid}", why, "install gdb, and try again")
    return Injection(target.gdb, pid, target.python, code, pipe.answer).run()
