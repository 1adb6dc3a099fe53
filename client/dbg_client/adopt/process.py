"""Facts about processes from ``/proc``: their Python, and the ranks that a launcher started. No process is changed.

A thread that waits in one of certain system calls is not in the middle of allocating memory or loading a library. It
can be borrowed: a debugger calls other functions in it, and it continues to wait afterwards.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dbg_wire.errors import DbgError, printable
from dbg_wire.launchers import RANK_VARIABLES, is_launcher
from dbg_wire.libraries import call_names

PROC = Path("/proc")

GOOD_SECONDS = 1.0
"""Longest normal wait of a thread for a disk or for memory, in seconds; a longer wait may never end."""


class CantAdopt(DbgError):
    """Raised when a process can't be adopted and is unchanged. ``remedy`` is for its user or an administrator."""

    def __init__(self, who: str, why: str, remedy: str) -> None:
        super().__init__(who, why, remedy)
        self.who = who
        self.why = why
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{printable(self.who)} {printable(self.why)}; {printable(self.remedy)}"


class NoSuchProcess(CantAdopt):
    """Raised when there is no process with this number."""

    exit_status = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """Facts about a process.

    ``state`` is the letter that ``ps`` shows, ``tracer`` its tracer's pid or 0, ``age`` the seconds since its start.
    ``environ`` and ``argv`` are empty if they cannot be read.
    """

    pid: int
    uid: int
    parent: int
    state: str
    tracer: int
    name: str
    age: float
    argv: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def command(self) -> tuple[str, ...]:
        """The program's command line: the arguments after the interpreter and its options."""
        return program_words(self.argv)


def read_process(pid: int) -> ProcessInfo | None:
    """Return facts about a process, or None if there is no such process. Blocks while it reads small files."""
    folder = PROC / str(pid)
    try:
        status = dict(_fields((folder / "status").read_text(encoding="utf-8", errors="replace")))
        parts = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return ProcessInfo(
        pid=pid,
        uid=int(status["Uid"].split()[0]),
        parent=int(status["PPid"]),
        state=status["State"][:1],
        tracer=int(status.get("TracerPid", "0")),
        name=status["Name"],
        age=_age(int(parts[19])),
        argv=tuple(_texts(folder / "cmdline")),
        environ=dict(text.split("=", 1) for text in _texts(folder / "environ") if "=" in text),
    )


def all_pids() -> list[int]:
    """Return the numbers of all visible processes."""
    return sorted(int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal())


def mappings(pid: int) -> dict[str, range]:
    """Return the address range of each file that is mapped into a process, including zero-initialized variables.

    Raises OSError if access is forbidden.
    """
    found: dict[str, range] = {}
    before = ""
    for line in (PROC / str(pid) / "maps").read_text(encoding="utf-8", errors="replace").splitlines():
        parts = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in parts[0].split("-"))
        path = parts[5] if len(parts) == 6 else ""
        # Zero-initialized variables are not part of the file; their memory follows the part that is mapped from the
        # file.
        of = before if not path and before and found[before].stop == start else path
        if of.startswith("/"):
            found[of] = range(found[of].start if of in found else start, end)
        before = path if path.startswith("/") else ""
    return found


def same_files(pid: int) -> bool:
    """Return True if the process sees the same files as this one. Raises OSError if that can't be read."""
    return (PROC / str(pid) / "ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink()


def may_trace(pid: int) -> bool:
    """Return True if the kernel lets this user trace a process: opening its memory needs the same permission."""
    try:
        os.close(os.open(PROC / str(pid) / "mem", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def system_call(pid: int, thread: int) -> tuple[int, int] | None:
    """Return the number and the first argument of the system call that a thread is in.

    Return None if the thread is in its own code or has ended. Raises PermissionError if access is forbidden.
    """
    try:
        fields = (PROC / str(pid) / "task" / str(thread) / "syscall").read_text(encoding="ascii").split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return (int(fields[0]), int(fields[1], 16)) if fields[0].isdecimal() else None


def is_file_on_disk(pid: int, descriptor: int) -> bool:
    """Return True if a descriptor of a process is a regular file, or can't be examined."""
    try:
        return stat.S_ISREG((PROC / str(pid) / "fd" / str(descriptor)).stat().st_mode)
    except OSError:
        return True


def sleeps_for_good(pid: int) -> bool:
    """Return True if a thread is in an uninterruptible wait in the kernel, where no debugger can stop it.

    Blocks for up to GOOD_SECONDS, because threads of a busy program wait in this way for a short time.
    """
    left = _uninterruptible(pid)
    deadline = time.monotonic() + GOOD_SECONDS
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left &= _uninterruptible(pid)
    return bool(left)


def _uninterruptible(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for thread in (PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                text = (thread / "stat").read_text(encoding="utf-8", errors="replace")
                if text.rpartition(")")[2].split()[0] == "D":
                    found.add(thread.name)
    return found


def program_words(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Remove a Python interpreter and its options from the start of a command line; keep ``-m`` and ``-c``."""
    arguments = list(argv[1:])
    while arguments and arguments[0].startswith("-") and arguments[0] not in ("-", "-m", "-c"):
        if arguments[0][1:2] != "-" and arguments[0][-1:] in "mc":  # `-um module`
            return (f"-{arguments[0][-1]}", *arguments[1:])
        takes_value = arguments[0] in ("-W", "-X", "--check-hash-based-pycs")
        del arguments[: 2 if takes_value else 1]
    return tuple(arguments)


def _age(start: int) -> float:
    up = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return max(0.0, up - start / os.sysconf("SC_CLK_TCK"))


def _texts(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except OSError:
        return []
    return [part.decode("utf-8", "surrogateescape") for part in data.rstrip(b"\0").split(b"\0")] if data else []


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, _, value = line.partition(":")
        yield name, value.strip()


WAITING = frozenset(
    {
        *("read", "poll", "select", "sched_yield", "pause", "nanosleep", "accept", "recvfrom", "recvmsg", "wait4"),
        *("semop", "msgrcv", "fcntl", "flock", "rt_sigtimedwait", "rt_sigsuspend", "futex", "io_getevents"),
        *("restart_syscall", "clock_nanosleep", "epoll_wait", "waitid", "pselect6", "ppoll", "epoll_pwait", "accept4"),
        *("recvmmsg", "epoll_pwait2", "futex_waitv"),
    }
)
"""System calls in which a waiting thread may be borrowed."""


def waits_safely(machine: str, number: int | None) -> bool:
    """Return True if a thread in this system call may be borrowed; ``number`` is None outside of system calls."""
    return number is not None and call_names(machine).get(number) in WAITING


def is_tried(machine: str) -> bool:
    """Return True if the system calls of this machine type are known; otherwise no thread is borrowed."""
    return bool(call_names(machine))


_COMMANDS = frozenset({"dbg-attach", "dbg-broker", "dbg_client", "dbg_broker"})

_SCHEDULERS_JOB = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")
"""Variables with a scheduler's job number. A user may have several jobs on a node; a command in a job adopts only
processes of that job.
"""

_TRACKER = "from multiprocessing.resource_tracker "
"""Beginning of the code of multiprocessing's helper process, which has its rank's variables but is not a rank."""


def is_guard(argv: Sequence[str]) -> bool:
    """Return True if a command line is a rank's guard."""
    return any(word.endswith("/dbg_agent/guard/process.py") for word in argv)


def is_ours(command: Sequence[str]) -> bool:
    """Return True if a program's command line is a command of dbg-broker or a guard."""
    name = _module(command).partition(".")[0] or (command[0].rpartition("/")[2] if command else "")
    return name in _COMMANDS or is_guard(command)


def starts_ranks(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return True if a program's command line is a launcher."""
    module = _module(command)
    return is_launcher(command[1:] if module else command, module or None, environ)


def _module(command: Sequence[str]) -> str:
    """Return the module of ``-m module``, or "" for other programs."""
    return command[1] if len(command) > 1 and command[0] == "-m" else ""


def is_of_job(environ: Mapping[str, str], own: Mapping[str, str]) -> bool:
    """Return True if a process belongs to this command's scheduler job, or if this command is in no job."""
    return all(environ.get(name) == own[name] for name in _SCHEDULERS_JOB if own.get(name))


def place_of(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the variables that contain a rank number of a launcher, the innermost launcher first; may be empty."""
    return tuple(
        (name, environ[name])
        for name, needs in RANK_VARIABLES.items()
        if environ.get(name, "").isdecimal() and (not needs or environ.get(needs))
    )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A process that looks like a rank. ``rank`` is the launcher's number; ``is_rank`` means that it already is one."""

    pid: int
    rank: int
    script: str
    age: float
    is_rank: bool = False


def topmost(seen: Mapping[int, ProcessInfo], own: Mapping[str, str]) -> list[Candidate]:
    """Return the topmost process of each rank among the processes that look like ranks. Pure.

    ``own`` is the environment of this command; it shows the scheduler job that the command belongs to.
    """
    guarded = {found.parent for found in seen.values() if is_guard(found.argv)}
    places = {pid: place_of(found.environ) for pid, found in seen.items() if _is_meant(found, own)}
    kept = [pid for pid, place in places.items() if all(places.get(above) != place for above in _above(pid, seen))]
    candidates = [_candidate(seen[pid], int(places[pid][0][1]), is_rank=pid in guarded) for pid in kept]
    return sorted(candidates, key=lambda candidate: (candidate.rank, candidate.pid))


def _is_meant(found: ProcessInfo, own: Mapping[str, str]) -> bool:
    if found.state in "ZX" or found.pid == os.getpid() or not found.command or is_ours(found.command):
        return False
    if found.command[0] == "-c" and " ".join(found.command[1:]).startswith(_TRACKER):
        return False
    return (
        bool(place_of(found.environ))
        and is_of_job(found.environ, own)
        and not starts_ranks(found.command, found.environ)
    )


def _above(pid: int, seen: Mapping[int, ProcessInfo]) -> Sequence[int]:
    chain: list[int] = []
    while pid in seen and pid not in chain:
        chain.append(pid)
        pid = seen[pid].parent
    return chain[1:]


def _candidate(found: ProcessInfo, rank: int, *, is_rank: bool) -> Candidate:
    count = 2 if found.command[0] == "-m" else 1
    return Candidate(found.pid, rank, " ".join(found.command[:count]), found.age, is_rank)


_VERSION = re.compile(r"python(\d)\.(\d+)(t?)(?=[/.]|\Z)")
_LIBRARY = re.compile(r"/libpython3[^/]*\.so[^/]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPython:
    """A process's Python: its version, such as (3, 11), and whether it has no interpreter lock (``free_threaded``).

    ``memory`` contains the interpreter's own state, including its lock. ``is_musl`` means that its C library is musl.
    """

    version: tuple[int, int] | None
    free_threaded: bool
    memory: range
    is_musl: bool


def find_python(pid: int, mapped: Mapping[str, range]) -> TargetPython | None:
    """Return the Python in a process, or None for a process without Python. Raises OSError."""
    executable = str((PROC / str(pid) / "exe").readlink())
    library = next(filter(_LIBRARY.search, mapped), executable)
    if library not in mapped or (library == executable and not _is_interpreter(executable, mapped)):
        return None
    version, free_threaded = _version([library, executable, *mapped])
    return TargetPython(
        version=version,
        free_threaded=free_threaded,
        memory=mapped[library],
        is_musl=any("/ld-musl-" in path for path in mapped),
    )


def _is_interpreter(executable: str, mapped: Mapping[str, range]) -> bool:
    name = executable.rpartition("/")[2]
    return name.startswith(("python", "pypy")) or any("/lib-dynload/" in path for path in mapped)


def _version(paths: Sequence[str]) -> tuple[tuple[int, int] | None, bool]:
    for path in paths:
        found = _VERSION.search(Path(path).name) or _VERSION.search(path)
        if found:
            return (int(found[1]), int(found[2])), bool(found[3])
    return None, False
