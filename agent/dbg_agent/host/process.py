"""This process and its threads as the kernel sees them: amounts, limits, and the system call that a thread is in."""

from __future__ import annotations

import os
import struct
import threading
import time
from typing import NamedTuple

from dbg_agent.host.proc import MemoryGroup, fields_of, number_in, read_proc, stat_of
from dbg_agent.process.threads import own_traffic
from dbg_wire.errors import printable
from dbg_wire.records.evidence import ProcessSeen
from dbg_wire.records.record import fitted
from dbg_wire.tables.system_calls import call_names

MAX_POLLED = 8
"""Descriptors of one poll() that are looked at."""

_MAX_PATH = 4096

MAX_COMMAND = 60
"""Characters of a command line."""


class SystemCall(NamedTuple):
    """A call with its six arguments; ``name`` is its number's text if the number is not in the table.

    ``process`` is the folder in /proc of the process that is in it.
    """

    name: str
    arguments: tuple[int, ...]
    process: str = "self"


_NAMES = call_names(os.uname().machine)


def system_call(thread: int, process: str = "self") -> SystemCall | None:
    """Return the call that a thread, by its kernel's id, is in; None if it runs, or if the kernel does not tell."""
    fields = read_proc(f"/proc/{process}/task/{thread}/syscall").split()
    try:
        # A thread that is blocked outside of any call has the number -1.
        if len(fields) < 7 or int(fields[0]) < 0:
            return None
        number = int(fields[0])
        return SystemCall(
            _NAMES.get(number, f"number {number}"), tuple(int(field, 16) for field in fields[1:7]), process
        )
    except ValueError:
        return None


def kernel_thread(native: object, *, is_main: bool) -> int | None:
    """Return a thread's number in the kernel, by the one that :mod:`threading` keeps; None if it is unknown.

    The main thread of a forked process keeps the number that it had in its parent, where another thread may have it.
    """
    if type(native) is int and os.path.exists(f"/proc/self/task/{native}"):  # noqa: PTH110 - no pathlib in a rank
        return native
    return os.getpid() if is_main else None


def path_of(call: SystemCall) -> str:
    """Return the path that a call has got; empty if it has none, or if it can't be read."""
    if call.name in ("open", "stat", "lstat", "access", "mkdir", "rmdir", "unlink", "readlink", "statfs", "chdir"):
        address = call.arguments[0]
    elif call.name in ("openat", "openat2", "newfstatat", "statx", "faccessat", "faccessat2", "unlinkat", "readlinkat"):
        address = call.arguments[1]
    else:
        return ""
    return os.fsdecode(_memory(call, address, _MAX_PATH).partition(b"\0")[0])


def polled(call: SystemCall) -> list[int]:
    """Return the descriptors that a poll() waits for, at most MAX_POLLED."""
    if call.name not in ("poll", "ppoll"):
        return []
    count = min(call.arguments[1], MAX_POLLED)
    raw = _memory(call, call.arguments[0], 8 * count)
    return [descriptor for descriptor, _, _ in struct.iter_unpack("=ihh", raw[: len(raw) // 8 * 8]) if descriptor >= 0]


def peer_of(call: SystemCall) -> str:
    """Return the address to which a connect() goes; empty if it can't be read."""
    import socket

    raw = _memory(call, call.arguments[1], min(call.arguments[2], 128))
    if len(raw) < 8:
        return ""
    family = int.from_bytes(raw[:2], "little")
    port = int.from_bytes(raw[2:4], "big")
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(family, raw[4:8])}:{port}"
    if family == socket.AF_INET6 and len(raw) >= 24:
        return f"[{socket.inet_ntop(family, raw[8:24])}]:{port}"
    return os.fsdecode(raw[2:].rstrip(b"\0")) if family == socket.AF_UNIX else ""


def _memory(call: SystemCall, address: int, count: int) -> bytes:
    """Return memory of a call's process; less than ``count``, or nothing, where there is none or it may not be read."""
    try:
        descriptor = os.open(f"/proc/{call.process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        # The kernel reads as far as it can; an address without memory is an error, and no fault of the process.
        return os.pread(descriptor, count, address)
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(descriptor)


def process_seen() -> ProcessSeen:
    """Return what /proc tells; empty fields where it tells nothing. For any thread; it never raises."""
    status, main = fields_of("/proc/self/status"), threading.main_thread()
    native = kernel_thread(main.native_id, is_main=True)
    call = system_call(native) if native is not None else None
    whole, ours = fields_of("/proc/self/io"), own_traffic()
    # What our threads read to tell of a rank is no progress of it.
    read, written = (
        max(0, amount - ours[name]) if (amount := number_in(whole.get(name, ""))) is not None else None
        for name in ("rchar", "wchar")
    )
    group = MemoryGroup("self")
    resident = number_in(status.get("VmRSS", "").removesuffix("kB"))
    return fitted(
        ProcessSeen,
        state=status.get("State", "")[:1],
        system_call=call.name if call is not None else "",
        cpu=time.process_time(),
        main_cpu=thread_time(main.ident),
        input=read,
        output=written,
        memory=resident * 1024 if resident is not None else None,
        memory_limit=group.limit(),
        note="; ".join(note for note in (_tracer(status.get("TracerPid", "")), _killed(group)) if note),
    )


def thread_time(ident: int | None) -> float | None:
    """Return the processor time of the main thread in seconds, None if the kernel does not tell."""
    try:
        # The main thread does not end before the process does; the clock of another thread must not be asked for.
        return time.clock_gettime(time.pthread_getcpuclockid(ident or 0))
    except OSError:
        return None


def _killed(group: MemoryGroup) -> str:
    """Say that the kernel has killed processes of the group for lack of memory, if it has."""
    killed = group.kills()
    what = "a process" if killed == 1 else f"{killed} processes"
    return f"the kernel has killed {what} of its group for lack of memory" if killed else ""


def _tracer(pid: str) -> str:
    number = number_in(pid)
    return f"the process {command_of(number)} traces it" if number else ""


def command_of(pid: int) -> str:
    """Return a process's number and command line, such as ``4711 (`sort big`)``; the number alone if it is gone."""
    if pid != os.getpid() and is_same_program(pid):
        return f"{pid} (same program)"
    line = read_proc(f"/proc/{pid}/cmdline", 1000)
    program, _, rest = line.rstrip("\0").partition("\0")
    words = f"{program.rpartition('/')[2]} {rest}".replace("\0", " ").strip()
    if len(words) > MAX_COMMAND:
        words = f"{words[:MAX_COMMAND]}…"
    if words:
        return f"{pid} (`{printable(words)}`)"
    return f"{pid} (which has ended)" if has_ended(pid) else str(pid)


def is_same_program(pid: int) -> bool:
    """Tell whether a process runs the program of this one, as a fork does, or another rank."""
    line = read_proc(f"/proc/{pid}/cmdline", 1000)
    return line != "" and line == read_proc("/proc/self/cmdline", 1000)


def has_ended(pid: int) -> bool:
    """Tell whether a process has ended, also if its parent has not asked for its end yet."""
    state = state_of(pid)
    return state in ("", "Z", "X")


def state_of(pid: int) -> str:
    """Return the letter of a process's state; empty if there is no such process."""
    return next(iter(stat_of(pid)[1]), "")
