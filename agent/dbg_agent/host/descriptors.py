"""Targets of waiting system calls: files, sockets with their addresses, pipes with the processes at the other end."""

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
from dbg_wire.records.evidence import Activity, ActivityInfo, Target
from dbg_wire.records.record import clamp

MAX_SECONDS = 0.1
"""Maximum CPU time, in seconds, of one search through the processes of the host."""

FILE_SECONDS = 0.5
"""Timeout, in seconds, for a query about a file. A file system answers within a millisecond, or never."""

file_system = BoundedThreads("dbg-agent-path", 1)
"""The thread that queries file systems, because they may never answer."""

MAX_CHILDREN = 32
"""Maximum number of child processes whose descriptors are read."""

WaitWithHolder = tuple[ActivityInfo, int | None]
"""The thread's activity, and the pid of the only process that holds the awaited resource, or None if unknown."""


def doing(what: Activity, **fields: Any) -> ActivityInfo:
    """Build an ActivityInfo from values of the program, which are shortened to the limits of the record."""
    return clamp(ActivityInfo, what=what, **fields)


def held_by(does: ActivityInfo, pids: Iterable[int]) -> WaitWithHolder:
    """Return the activity ``does`` with the holders of the awaited resource added, and the pid if there is only one."""
    listed = list(dict.fromkeys(pids))
    return does.replace(processes=tuple(map(named, listed[:MAX_CHILDREN]))), listed[0] if len(listed) == 1 else None


def lock_holders(path: str) -> list[int]:
    """Return the processes that hold a lock of the file, from the kernel's list of locks."""
    try:
        inode = os.stat(path).st_ino  # noqa: PTH116 - no pathlib in a rank
    except OSError:
        return []
    lines = [line.split() for line in read_proc("/proc/locks", 1 << 20).splitlines()]
    # The line of a waiting process has an arrow before the kind of the lock.
    held = [line for line in lines if len(line) > 5 and line[1] != "->" and line[5].rpartition(":")[2] == str(inode)]
    return [int(line[4]) for line in held if line[4].isdecimal() and line[4] != "0"]


def openers(path: str) -> list[int]:
    """Return the processes that have the file open, as far as this process may read their descriptors."""
    with suppress(OSError):
        own = os.getpid()
        # The nearest pids are searched first, because processes of one program mostly have pids close to each other.
        pids = sorted((int(name) for name in os.listdir("/proc") if name.isdecimal()), key=lambda pid: abs(pid - own))  # noqa: PTH208
        return [pid for pid, _ in _descriptors(pids, path)]
    return []


def other_ends(pipe: str, *, reads: bool) -> list[int]:
    """Return the pids of the processes at the other end of a pipe; only this process and its children are searched.

    If the process at this end reads (``reads``), the other end is the write end; otherwise it is the read end.
    """
    mode = os.O_WRONLY if reads else os.O_RDONLY
    return [pid for pid, number in _descriptors([os.getpid(), *children()], pipe) if _mode(pid, number) == mode]


class LookedUp(NamedTuple):
    """A path with symbolic links resolved, as in /proc. The age of its file is in seconds, None if there is no file."""

    path: str
    age: float | None = None


def looked_up(path: str) -> LookedUp:
    """Resolve a path and return it with the file's age; return it unchanged if its file system does not answer."""

    def look() -> LookedUp:
        real = os.path.realpath(path)
        try:
            seen = os.stat(real)  # noqa: PTH116 - no pathlib in a rank
        except (OSError, ValueError):
            return LookedUp(real)
        return LookedUp(real, max(0.0, time.time() - seen.st_mtime))

    return file_system.within(FILE_SECONDS, look, LookedUp(path))


def _descriptors(pids: Iterable[int], target: str) -> Iterator[tuple[int, str]]:
    """Yield (process, descriptor) for each descriptor of the file that these processes have open."""
    # The limit is for CPU time of this thread. With a limit for elapsed time, a search on a busy host would find less.
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
    **dict.fromkeys(("read", "pread64", "readv", "preadv", "recvfrom", "recvmsg", "recvmmsg"), Activity.READ),
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "sendto", "sendmsg"), Activity.WRITE),
    **dict.fromkeys(
        ("fsync", "fdatasync", "ioctl", "ftruncate", "fallocate", "fstat", "lseek"), Activity.ON_DESCRIPTOR
    ),
    **dict.fromkeys(("sendfile", "copy_file_range", "getdents64", "sync_file_range"), Activity.ON_DESCRIPTOR),
}
"""Activity of a thread in a system call whose first argument is a descriptor."""

_PLAIN = {
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), Activity.SLEEP),
    **dict.fromkeys(("epoll_wait", "epoll_pwait", "epoll_pwait2"), Activity.SELECT),
    **dict.fromkeys(("pause", "rt_sigsuspend", "rt_sigtimedwait"), Activity.SIGNAL),
}
"""Activity of a thread, for system calls that show the activity without further data."""

_STATES = {
    **dict.fromkeys(("", "Z", "X"), Activity.GONE),
    "T": Activity.SUSPENDED,
    "t": Activity.TRACED,
    "D": Activity.DISK,
}
"""Activity of a process by the letter of its state, for states that show the activity without further data."""


def does(pid: int) -> WaitWithHolder:
    """Return the activity of another process's main thread, as far as this process may see it."""
    state = state_of(pid)
    if state in _STATES:
        return ActivityInfo(what=_STATES[state]), None
    call = system_call(pid, str(pid))
    facts = waits_in(call) if call is not None else None
    if facts is not None:
        return facts
    if call is None:
        return ActivityInfo(what=Activity.COMPUTES if state == "R" else Activity.UNKNOWN), None
    is_lock = call.name.startswith("futex")
    return (
        ActivityInfo(what=Activity.NATIVE_LOCK) if is_lock else doing(Activity.SYSTEM_CALL, function=call.name)
    ), None


def waits_in(call: SystemCall) -> WaitWithHolder | None:
    """Return the wait of a thread in this system call, or None if the call does not show what the thread awaits."""
    name, first = call.name, call.arguments[0] & 0x7FFFFFFF
    if name in _PLAIN:
        return ActivityInfo(what=_PLAIN[name]), None
    if name in _ON_DESCRIPTORS:
        return _on(call, first, _ON_DESCRIPTORS[name], function=name)
    if name in ("poll", "ppoll"):
        found = polled(call)
        return _on(call, found[0], Activity.POLL, count=len(found) - 1) if found else None
    if name in ("select", "pselect6"):
        # A select() without descriptors is a sleep.
        plain = ActivityInfo(what=Activity.SELECT if first else Activity.SLEEP), None
        return _on(call, 0, Activity.POLL) if first == 1 else plain
    if name in ("flock", "fcntl"):
        return _locked(call)
    if name in ("accept", "accept4"):
        return doing(Activity.LISTEN, name=_addresses(first)[0] or "a socket"), None
    if name == "connect":
        return doing(Activity.CONNECT, name=peer_of(call) or "an unknown address"), None
    if name in ("wait4", "waitid"):
        return _child(call)
    path = path_of(call)
    return (doing(Activity.OPEN if name.startswith("open") else Activity.LOOK_AT, name=path), None) if path else None


def _child(call: SystemCall) -> WaitWithHolder:
    # The first argument of waitid() is the id type: 1 is P_PID, 3 is P_PIDFD.
    pid = call.arguments[0] if call.name == "wait4" else call.arguments[1] if call.arguments[0] == 1 else 0
    return held_by(ActivityInfo(what=Activity.CHILD_END), [pid] if 0 < pid < 2**31 else [])


def _locked(call: SystemCall) -> WaitWithHolder:
    found, _ = _on(call, call.arguments[0] & 0x7FFFFFFF, Activity.DESCRIPTOR_LOCK)
    return held_by(found, lock_holders(found.name)) if found.target is Target.FILE else (found, None)


def _target(process: str, number: int) -> str:
    """Return the kernel's text for a descriptor's target without accessing the file. Raise OSError if there is none."""
    return os.readlink(f"/proc/{process}/fd/{number}")  # noqa: PTH115 - no pathlib in a rank


def _on(call: SystemCall, first: int, what: Activity, **fields: Any) -> WaitWithHolder:
    """Return the activity of a call on the descriptor ``first``, with the descriptor's target."""
    process, number = call.process, first
    try:
        target = _target(process, number)
    except OSError:
        return doing(what, target=Target.OTHER, descriptor=number, **fields), None
    if target.startswith("pipe:"):
        return _pipe(process, number, target, doing(what, descriptor=number, **fields))
    is_reading = what in (Activity.READ, Activity.POLL)
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
    """Return True if the descriptor is the process's standard input, or another descriptor of the same file."""
    with suppress(OSError):
        return number == 0 or _target(process, 0) == target
    return False


def _pipe(process: str, number: int, pipe: str, found: ActivityInfo) -> WaitWithHolder:
    """Return the wait at a pipe, and the processes at its other end as far as :func:`other_ends` finds them."""
    is_own, is_writing = process == "self", found.what is Activity.WRITE
    others = [pid for pid in other_ends(pipe, reads=not is_writing) if str(pid) != process]
    if is_writing:
        # This function checks for free space only in a pipe of this process. If another process is seen in a write, its
        # pipe is full, because a write to a pipe with free space returns at once.
        is_full = not (is_own and _has_room(number))
        return held_by(found.replace(target=Target.FULL_PIPE if is_full else Target.PIPE), others)
    children_alone = [pid for pid in others if pid != os.getpid()]
    if is_own and children_alone:
        return held_by(found.replace(what=Activity.CHILD_OUTPUT), children_alone[:1])
    if is_own and _is_input(process, number, pipe):
        return found.replace(target=Target.INPUT), None
    return held_by(found.replace(target=Target.PIPE), others)


def _has_room(number: int) -> bool:
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    return bool(poll.poll(0))


def children() -> list[int]:
    """Return the child processes of this process, at most MAX_CHILDREN; empty if the kernel does not list them."""
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
    """Return the local and the peer address of a socket of this process; empty if it has none."""
    import _socket

    # The family -1 makes the constructor query the socket's address family, which is needed to decode addresses.
    # If the program has set a default socket timeout, the constructor makes the descriptor non-blocking. With
    # SOCK_NONBLOCK in the type, the constructor does not change the descriptor. The type has no other effect.
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
        # Keep the descriptor open, because it belongs to the program.
        asked.detach()
    return found[0], found[1]


def _shown(address: object) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        host = str(address[0]).removeprefix("::ffff:")
        return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
    return os.fsdecode(address) if isinstance(address, (str, bytes)) else ""
