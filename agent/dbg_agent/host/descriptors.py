"""What a thread waits for by its system call: a file, a socket with addresses, a pipe with who has its other end."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from dbg_agent.host.proc import read_proc
from dbg_agent.host.process import SystemCall, named, path_of, peer_of, polled, state_of, system_call
from dbg_agent.process.threads import BoundedThreads
from dbg_wire.records.evidence import Doing, Target, What
from dbg_wire.records.record import fitted

MAX_SECONDS = 0.1
"""Seconds of processor time after which one search through the processes of the host ends."""

FILE_SECONDS = 0.5
"""Seconds for which a file system may take to tell of a file; it takes less than a millisecond, or never does."""

file_system = BoundedThreads("dbg-agent-path", 1)
"""Asks file systems, which may never answer."""

MAX_CHILDREN = 32
"""Child processes whose descriptors are looked at."""

Waited = tuple[Doing, int | None]
"""What a thread waits for, and the one process that has it, None if that isn't known."""


def doing(what: What, **fields: Any) -> Doing:
    """Return what a thread is in, of values of the program."""
    return fitted(Doing, what=what, **fields)


def held_by(does: Doing, pids: Iterable[int]) -> Waited:
    """Return a wait with the processes that have what it is for, and the only one of them."""
    listed = list(dict.fromkeys(pids))
    return does.replace(processes=tuple(map(named, listed[:MAX_CHILDREN]))), listed[0] if len(listed) == 1 else None


def lock_holders(path: str) -> list[int]:
    """Return the processes that hold a lock of a file, by the kernel's list of locks."""
    try:
        inode = os.stat(path).st_ino  # noqa: PTH116 - no pathlib in a rank
    except OSError:
        return []
    lines = [line.split() for line in read_proc("/proc/locks", 1 << 20).splitlines()]
    # A line of a process that waits has an arrow before the kind of the lock.
    held = [line for line in lines if len(line) > 5 and line[1] != "->" and line[5].rpartition(":")[2] == str(inode)]
    return [int(line[4]) for line in held if line[4].isdecimal() and line[4] != "0"]


def openers(path: str) -> list[int]:
    """Return the processes that have a file open, of those whose descriptors may be read."""
    with suppress(OSError):
        own = os.getpid()
        # A program's processes mostly have numbers near each other.
        pids = sorted((int(name) for name in os.listdir("/proc") if name.isdecimal()), key=lambda pid: abs(pid - own))  # noqa: PTH208
        return [pid for pid, _ in _descriptors(pids, path)]
    return []


def other_ends(pipe: str, *, reads: bool) -> list[int]:
    """Return which of this process and its children have the end of a pipe that writes to a reader, or the reverse."""
    mode = os.O_WRONLY if reads else os.O_RDONLY
    return [pid for pid, number in _descriptors([os.getpid(), *children()], pipe) if _mode(pid, number) == mode]


class LookedUp(NamedTuple):
    """A path without symbolic links, as the links in /proc are; the file's age in seconds is None if there is none."""

    path: str
    age: float | None = None


def looked_up(path: str) -> LookedUp:
    """Return what a path leads to; the path as it is if its file system does not answer."""

    def look() -> LookedUp:
        real = os.path.realpath(path)
        try:
            seen = os.stat(real)  # noqa: PTH116 - no pathlib in a rank
        except (OSError, ValueError):
            return LookedUp(real)
        return LookedUp(real, max(0.0, time.time() - seen.st_mtime))

    return file_system.within(FILE_SECONDS, look, LookedUp(path))


def _descriptors(pids: Iterable[int], target: str) -> Iterator[tuple[int, str]]:
    """Yield each process that has a descriptor of a file, with that descriptor, once for each."""
    # Time of this thread alone: on a busy host a search would find less each time.
    until = time.thread_time() + MAX_SECONDS
    for pid in pids:
        with suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - no pathlib in a rank
                if time.thread_time() > until:
                    return
                with suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{number}") == target:  # noqa: PTH115
                        yield pid, number


def _mode(pid: int, number: str) -> int | None:
    fields = dict(line.split(":", 1) for line in read_proc(f"/proc/{pid}/fdinfo/{number}").splitlines() if ":" in line)
    try:
        return int(fields.get("flags", ""), 8) & os.O_ACCMODE
    except ValueError:
        return None


_ON_DESCRIPTORS = {
    **dict.fromkeys(("read", "pread64", "readv", "preadv", "recvfrom", "recvmsg", "recvmmsg"), What.READ),
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "sendto", "sendmsg"), What.WRITE),
    **dict.fromkeys(("fsync", "fdatasync", "ioctl", "ftruncate", "fallocate", "fstat", "lseek"), What.ON_DESCRIPTOR),
    **dict.fromkeys(("sendfile", "copy_file_range", "getdents64", "sync_file_range"), What.ON_DESCRIPTOR),
}
"""Calls with a descriptor as first argument."""

_PLAIN = {
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), What.SLEEP),
    **dict.fromkeys(("epoll_wait", "epoll_pwait", "epoll_pwait2"), What.SELECT),
    **dict.fromkeys(("pause", "rt_sigsuspend", "rt_sigtimedwait"), What.SIGNAL),
}
"""Calls that say it all."""

_STATES = {
    **dict.fromkeys(("", "Z", "X"), What.GONE),
    "T": What.SUSPENDED,
    "t": What.TRACED,
    "D": What.DISK,
}
"""What a process does in a state of the kernel that says it all."""


def does(pid: int) -> Waited:
    """Return what the main thread of another process does, as far as the kernel tells this one."""
    state = state_of(pid)
    if state in _STATES:
        return Doing(what=_STATES[state]), None
    call = system_call(pid, str(pid))
    told = waits_in(call) if call is not None else None
    if told is not None:
        return told
    if call is None:
        return Doing(what=What.COMPUTES if state == "R" else What.UNKNOWN), None
    is_lock = call.name.startswith("futex")
    return (Doing(what=What.NATIVE_LOCK) if is_lock else doing(What.SYSTEM_CALL, function=call.name)), None


def waits_in(call: SystemCall) -> Waited | None:
    """Return what a thread in this call waits for; None if the call does not tell."""
    name, first = call.name, call.arguments[0] & 0x7FFFFFFF
    if name in _PLAIN:
        return Doing(what=_PLAIN[name]), None
    if name in _ON_DESCRIPTORS:
        return _on(call, first, _ON_DESCRIPTORS[name], function=name)
    if name in ("poll", "ppoll"):
        found = polled(call)
        return _on(call, found[0], What.POLL, count=len(found) - 1) if found else None
    if name in ("select", "pselect6"):
        # Nobody waits for nothing but with a time limit.
        plain = Doing(what=What.SELECT if first else What.SLEEP), None
        return _on(call, 0, What.POLL) if first == 1 else plain
    if name in ("flock", "fcntl"):
        return _locked(call)
    if name in ("accept", "accept4"):
        return doing(What.LISTEN, name=_addresses(first)[0] or "a socket"), None
    if name == "connect":
        return doing(What.CONNECT, name=peer_of(call) or "an unknown address"), None
    if name in ("wait4", "waitid"):
        return _child(call)
    path = path_of(call)
    return (doing(What.OPEN if name.startswith("open") else What.LOOK_AT, name=path), None) if path else None


def _child(call: SystemCall) -> Waited:
    # waitid() has a kind of id before it, of which 1 is a process and 3 a descriptor of one.
    pid = call.arguments[0] if call.name == "wait4" else call.arguments[1] if call.arguments[0] == 1 else 0
    return held_by(Doing(what=What.CHILD_END), [pid] if 0 < pid < 2**31 else [])


def _locked(call: SystemCall) -> Waited:
    found, _ = _on(call, call.arguments[0] & 0x7FFFFFFF, What.DESCRIPTOR_LOCK)
    return held_by(found, lock_holders(found.name)) if found.target is Target.FILE else (found, None)


def _target(process: str, number: int) -> str:
    """Return what a descriptor stands for, as the kernel writes it; the file is not touched. Raises OSError."""
    return os.readlink(f"/proc/{process}/fd/{number}")  # noqa: PTH115 - no pathlib in a rank


def _on(call: SystemCall, first: int, what: What, **fields: Any) -> Waited:
    """Return what is done to a descriptor."""
    process, number = call.process, first
    try:
        target = _target(process, number)
    except OSError:
        return doing(what, target=Target.OTHER, descriptor=number, **fields), None
    if target.startswith("pipe:"):
        return _pipe(process, number, target, doing(what, descriptor=number, **fields))
    is_reading = what in (What.READ, What.POLL)
    kind, name = Target.FILE, target
    if target.startswith(("/dev/pts/", "/dev/tty")) and is_reading and _is_input(process, number, target):
        kind = Target.TERMINAL
    elif target.startswith("/dev/"):
        kind = Target.DEVICE
    elif target.startswith("socket:"):
        here, there = _addresses(number) if process == "self" else ("", "")
        kind, name = Target.SOCKET, f"{here or '?'} → {there or '?'}" if here or there else ""
    elif target.startswith("anon_inode:"):
        kind, name = Target.OTHER, target.partition(":")[2]
    return doing(what, target=kind, name=name, descriptor=number, **fields), None


def _is_input(process: str, number: int, target: str) -> bool:
    """Return whether this is a process's standard input, perhaps under another number."""
    with suppress(OSError):
        return number == 0 or _target(process, 0) == target
    return False


def _pipe(process: str, number: int, pipe: str, found: Doing) -> Waited:
    """Return who should write to, or read from, a pipe: this process or its children, where they have its other end."""
    is_own, is_writing = process == "self", found.what is What.WRITE
    others = [pid for pid in other_ends(pipe, reads=not is_writing) if str(pid) != process]
    if is_writing:
        # Another process is in this call for so long only if the pipe is full.
        is_full = not (is_own and _has_room(number))
        return held_by(found.replace(target=Target.FULL_PIPE if is_full else Target.PIPE), others)
    children_alone = [pid for pid in others if pid != os.getpid()]
    if is_own and children_alone:
        return held_by(found.replace(what=What.CHILD_OUTPUT), children_alone[:1])
    if is_own and _is_input(process, number, pipe):
        return found.replace(target=Target.INPUT), None
    return held_by(found.replace(target=Target.PIPE), others)


def _has_room(number: int) -> bool:
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    return bool(poll.poll(0))


def children() -> list[int]:
    """Return the child processes of this process, at most MAX_CHILDREN; empty where the kernel does not tell."""
    found: list[int] = []
    try:
        threads = os.listdir("/proc/self/task")  # noqa: PTH208 - no pathlib in a rank
    except OSError:
        return []
    for thread in threads:
        found += map(int, read_proc(f"/proc/self/task/{thread}/children").split())
        if len(found) >= MAX_CHILDREN:
            break
    return found[:MAX_CHILDREN]


def _addresses(descriptor: int) -> tuple[str, str]:
    """Return the own address of a socket of this process and its peer's; empty where it has none."""
    import _socket

    # The family is asked of the kernel, since addresses are read by it. The type makes no difference, but without
    # SOCK_NONBLOCK a program with a default time-out of sockets would have the descriptor made non-blocking.
    try:
        asked = _socket.socket(-1, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK, 0, descriptor)
    except OSError:
        return "", ""
    found = []
    try:
        for ask in (asked.getsockname, asked.getpeername):
            try:
                found.append(_shown(ask()))
            except OSError:
                found.append("")
    finally:
        # The descriptor stays open: it is the program's.
        asked.detach()
    return found[0], found[1]


def _shown(address: object) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        host = str(address[0]).removeprefix("::ffff:")
        return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
    return os.fsdecode(address) if isinstance(address, (str, bytes)) else ""
