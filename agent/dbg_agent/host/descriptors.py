"""What a descriptor of this process is: a file, a socket with its addresses, or a pipe with who holds its other end."""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from dbg_agent.host.proc import read_proc
from dbg_agent.host.process import (
    SystemCall,
    command_of,
    is_same_program,
    path_of,
    peer_of,
    polled,
    state_of,
    system_call,
)
from dbg_agent.process.threads import BoundedThreads
from dbg_wire.errors import printable
from dbg_wire.records.evidence import WaitKind

MAX_SECONDS = 0.1
"""Seconds of processor time after which one search through the processes of the host ends."""

FILE_SECONDS = 0.5
"""Seconds for which a file system may take to tell of a file; it takes less than a millisecond, or never does."""


file_system = BoundedThreads("dbg-agent-path", 1)
"""Asks file systems, which may never answer."""

MAX_CHILDREN = 32
"""Child processes whose descriptors are looked at."""

MAX_DESCRIPTORS = 256
"""Descriptors of one child process that are looked at."""

MAX_NAMED = 3
"""Processes that one sentence names as holders."""


def lock_holders(path: str) -> list[int]:
    """Return the processes that hold a lock of a file, of those whose descriptors may be read."""
    lines = [line.split() for line in read_proc("/proc/locks", 1 << 20).splitlines()]
    # A line of a process that waits has an arrow before the kind of the lock.
    pids = {int(line[4]) for line in lines if len(line) > 4 and line[1] != "->" and line[4].isdecimal()}
    return _once(pid for pid, number in _descriptors(_nearest(pids), path) if "\nlock:" in _info(pid, number))


def openers(path: str) -> list[int]:
    """Return the processes that have a file open, of those whose descriptors may be read."""
    return _once(pid for pid, _ in _descriptors(_all_pids(), path))


def other_ends(pipe: str, *, reads: bool) -> list[int]:
    """Return the processes that have the end of a pipe (``pipe:[4711]``) that writes to a reader, or the reverse."""
    mode = os.O_WRONLY if reads else os.O_RDONLY
    return _once(pid for pid, number in _descriptors(_all_pids(), pipe) if _mode(pid, number) == mode)


class LookedUp(NamedTuple):
    """A path without symbolic links, as the links in /proc are; the file's age in seconds is None if there is none."""

    path: str
    age: float | None = None
    is_pipe: bool = False


def looked_up(path: str) -> LookedUp:
    """Return what a path leads to; the path as it is if its file system does not answer."""

    def look() -> LookedUp:
        real = os.path.realpath(path)
        try:
            seen = os.stat(real)  # noqa: PTH116 - no pathlib in a rank
        except (OSError, ValueError):
            return LookedUp(real)
        return LookedUp(real, max(0.0, time.time() - seen.st_mtime), stat.S_ISFIFO(seen.st_mode))

    return file_system.within(FILE_SECONDS, look, LookedUp(path))


class Descriptor(NamedTuple):
    """A descriptor of a process, by the process's folder in /proc."""

    process: str
    number: int

    @property
    def is_own(self) -> bool:
        """Tell whether it is one of this process."""
        return self.process == "self"

    @property
    def target(self) -> str:
        """Return what it stands for, as the kernel writes it; the file is not touched. Raises OSError."""
        return os.readlink(f"/proc/{self.process}/fd/{self.number}")  # noqa: PTH115 - no pathlib in a rank

    @property
    def stream(self) -> str:
        """Return `` (its standard input)`` of the first three, and nothing of others."""
        return f" ({_STREAMS[self.number]})" if self.number in _STREAMS else ""


def _once(pids: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(pids))


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


def _all_pids() -> list[int]:
    """Return the processes that are seen from here, this one and its children first: they are the likeliest."""
    near = [os.getpid(), *children()]
    with suppress(OSError):
        near += _nearest(int(name) for name in os.listdir("/proc") if name.isdecimal())  # noqa: PTH208
    return list(dict.fromkeys(near))


def _nearest(pids: Iterable[int]) -> list[int]:
    """Return processes by their distance in number: those that a program starts mostly come soon after it."""
    own = os.getpid()
    return sorted(pids, key=lambda pid: (abs(pid - own), pid))


def _info(pid: int, number: str) -> str:
    return read_proc(f"/proc/{pid}/fdinfo/{number}")


def _mode(pid: int, number: str) -> int | None:
    fields = dict(line.split(":", 1) for line in _info(pid, number).splitlines() if ":" in line)
    try:
        return int(fields.get("flags", ""), 8) & os.O_ACCMODE
    except ValueError:
        return None


_READS = frozenset({"read", "pread64", "readv", "preadv", "recvfrom", "recvmsg", "recvmmsg", "getdents", "getdents64"})
_WRITES = frozenset({"write", "pwrite64", "writev", "pwritev", "sendto", "sendmsg"})
_POLLS = frozenset({"poll", "ppoll"})
_WAITS = frozenset({"select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"})
_ON_FILES = {
    "fsync": "writes out",
    "fdatasync": "writes out",
    "msync": "writes out",
    "sync_file_range": "writes out",
    "ioctl": "is in ioctl() of",
    "ftruncate": "truncates",
    "fallocate": "allocates",
    "fstat": "looks at",
    "lseek": "seeks in",
    "copy_file_range": "copies",
    "sendfile": "copies to",
}
"""Calls with a descriptor as first argument."""

_LOCKS = frozenset({"flock", "fcntl"})


Waited = tuple[WaitKind, str] | tuple[WaitKind, str, int | None]
"""What a thread waits for, the end of a sentence, and the one process that holds it, if that is known."""

OF_ONE_HOST = " (of one host)"
"""The end of what is told of a socket without addresses."""

_STREAMS = {0: "its standard input", 1: "its standard output", 2: "its standard error"}


def does(pid: int) -> Waited:
    """Return what the main thread of another process does, as far as the kernel tells this one."""
    state = state_of(pid)
    if state in STATES:
        return WaitKind.UNKNOWN, STATES[state]
    call = system_call(pid, str(pid))
    told = waits_in(call) if call is not None else None
    if told is not None:
        return told
    if call is not None and call.name.startswith("futex"):
        return WaitKind.LOCK, "waits for a lock or a thread"
    if call is not None:
        return WaitKind.UNKNOWN, f"is in the system call {call.name}"
    if state == "R":
        return WaitKind.NATIVE, "computes"
    return WaitKind.UNKNOWN, "waits for what can't be read from here"


STATES = {
    "": "has ended",
    "Z": "has ended",
    "X": "has ended",
    "T": "is suspended",
    "t": "is suspended by a tracer",
    "D": "waits for a disk or a file system",
}
"""What a process does in a state of the kernel that says it all."""


def waits_in(call: SystemCall) -> Waited | None:
    """Return what a thread in this call waits for; None if the call does not tell."""
    name, descriptor = call.name, Descriptor(call.process, call.arguments[0] & 0x7FFFFFFF)
    if name in _READS:
        return _subject("reads", descriptor)
    if name in _WRITES:
        return _subject("writes to", descriptor)
    if name in _POLLS:
        found = polled(call)
        return _polled(call.process, found) if found else None
    if name in _LOCKS:
        return _locked(descriptor)
    if name in _ON_FILES:
        return _subject(_ON_FILES[name], descriptor)
    if name in ("accept", "accept4"):
        return WaitKind.SOCKET, f"waits for connections on {_addresses(descriptor)[0] or 'a socket'}"
    if name == "connect":
        return WaitKind.SOCKET, f"connects to {peer_of(call) or 'an unknown address'}"
    if name in _WAITS:
        return _selected(call)
    if name in ("nanosleep", "clock_nanosleep"):
        return WaitKind.SLEEP, "sleeps"
    if name in ("wait4", "waitid"):
        return _child(call)
    if name in ("pause", "rt_sigsuspend", "rt_sigtimedwait"):
        return WaitKind.UNKNOWN, "waits for a signal"
    path = path_of(call)
    if path and name.startswith("open"):
        return _opened(call, path)
    return (WaitKind.FILE, f"looks at {printable(path)}") if path else None


def _selected(call: SystemCall) -> Waited:
    count = call.arguments[0] if call.name in ("select", "pselect6") else None
    if count == 1:
        return _subject("waits for", Descriptor(call.process, 0))
    # Nobody waits for nothing but with a time limit.
    return (WaitKind.SLEEP, "sleeps") if count == 0 else (WaitKind.SOCKET, "waits for events of its descriptors")


def _opened(call: SystemCall, path: str) -> Waited:
    """Return whom a thread waits for that opens a file: who opens a named pipe waits for the other end."""
    found = looked_up(path) if path.startswith("/") or call.process == "self" else None
    if found is None or not found.is_pipe:
        return WaitKind.FILE, f"opens {printable(path)}"
    flags = call.arguments[1 if call.name == "open" else 2]
    is_reading = call.name == "openat2" or flags & os.O_ACCMODE == os.O_RDONLY
    others = [pid for pid in openers(found.path) if str(pid) != call.process and pid != os.getpid()]
    whom = f", which {_processes(others)} ha{'s' if len(others) == 1 else 've'} open" if others else ""
    return WaitKind.FILE, f"opens the pipe {printable(path)}{whom or _nobody(is_reading)}"


def _nobody(is_reading: bool) -> str:
    return " that nobody writes to" if is_reading else " that nobody reads"


def _polled(process: str, descriptors: list[int]) -> Waited:
    found = _subject("waits for", Descriptor(process, descriptors[0]))
    more = len(descriptors) - 1
    text = f"{found[1]} and {more} more" if more else found[1]
    return (found[0], text, found[2]) if len(found) == 3 else (found[0], text)


def _child(call: SystemCall) -> Waited:
    # waitid() has a kind of id before it, of which 1 is a process and 3 a descriptor of one.
    pid = call.arguments[0] if call.name == "wait4" else call.arguments[1] if call.arguments[0] == 1 else 0
    if not 0 < pid < 2**31:
        return WaitKind.CHILD, "waits for the end of any child process"
    return WaitKind.CHILD, f"waits for the process {command_of(pid)}", pid


def _locked(descriptor: Descriptor) -> Waited:
    kind, text, *_ = _subject("waits for the lock of", descriptor)
    try:
        return (kind, *held_by(text, lock_holders(descriptor.target)))
    except OSError:
        return kind, text


def held_by(text: str, pids: list[int]) -> tuple[str, int | None]:
    """Return a sentence about a lock with who holds it, and its only holder; the sentence alone if it isn't known."""
    if not pids:
        return text, None
    if pids == [os.getpid()]:
        return f"{text}, which this process holds itself", pids[0]
    return f"{text}, which {_processes(pids)} hold{'s' if len(pids) == 1 else ''}", pids[0] if len(pids) == 1 else None


def _processes(pids: list[int]) -> str:
    named = ["this process itself" if pid == os.getpid() else f"the process {command_of(pid)}" for pid in pids]
    more = f" and {len(pids) - MAX_NAMED} more" if len(pids) > MAX_NAMED else ""
    return f"{' and '.join(named[:MAX_NAMED])}{more}"


def _subject(verb: str, descriptor: Descriptor) -> Waited:
    """Return what is done to a descriptor."""
    try:
        target = descriptor.target
    except OSError:
        return WaitKind.UNKNOWN, f"{verb} descriptor {descriptor.number}"
    stream = descriptor.stream
    if verb in _FROM and _is_terminal(target) and _is_input(descriptor, target):
        return WaitKind.FILE, f"waits for a person to type at its standard input ({printable(target)})"
    if target.startswith("socket:"):
        return _socket(verb, descriptor, target)
    if target.startswith("pipe:"):
        return _pipe(verb, descriptor, target)
    if target.startswith("anon_inode:"):
        return WaitKind.UNKNOWN, f"{verb} {target.partition(':')[2]}"
    what = "the device" if target.startswith("/dev/") else "the file"
    if verb in _FROM or verb == "writes to":
        return _named_pipe(verb, descriptor, target) or (WaitKind.FILE, f"{verb} {what} {printable(target)}{stream}")
    return WaitKind.FILE, f"{verb} {what} {printable(target)}{stream}"


def _is_terminal(target: str) -> bool:
    return target.startswith(("/dev/pts/", "/dev/tty"))


def _is_input(descriptor: Descriptor, target: str) -> bool:
    """Return whether this is a process's standard input, perhaps under another number."""
    with suppress(OSError):
        return descriptor.number == 0 or Descriptor(descriptor.process, 0).target == target
    return False


def _socket(verb: str, descriptor: Descriptor, target: str) -> Waited:
    if not descriptor.is_own:
        return WaitKind.SOCKET, f"{verb} a socket{descriptor.stream}"
    here, there = _addresses(descriptor)
    ends = f" {here or '?'} → {there or '?'}" if here or there else f" {descriptor.number}{OF_ONE_HOST}"
    text = f"{verb} the socket{ends}{descriptor.stream}"
    is_local = here.rpartition(":")[0] == there.rpartition(":")[0] != ""
    peers = _peers(target) if is_local else []
    if not peers:
        return WaitKind.SOCKET, text
    # Another rank serves some sockets, such as those of torch's store, in other threads than its main one.
    is_alone = len(peers) == 1 and not is_same_program(peers[0])
    return WaitKind.SOCKET, f"{text} of {_processes(peers)}", peers[0] if is_alone else None


def _peers(target: str) -> list[int]:
    """Return the processes that have the other end of a connection (``socket:[4711]``) within this host."""
    own = target.removeprefix("socket:[").removesuffix("]")
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        text = read_proc(table, MAX_CONNECTIONS)
        row = _row(text, f" {own} ")
        if len(row) > _INODE and row[_INODE] == own:
            other = _row(text, f": {row[2]} {row[1]} ")
            # Before its program has accepted it, a connection has the number 0.
            if len(other) > _INODE and other[_INODE] != "0":
                return _once(pid for pid, _ in _descriptors(_all_pids(), f"socket:[{other[_INODE]}]"))
    return []


def _row(text: str, part: str) -> list[str]:
    """Return the words of the line with a part of it; of tens of thousands of lines no other one is split."""
    at = text.find(part)
    return text[text.rfind("\n", 0, at) + 1 : text.find("\n", at)].split() if at >= 0 else []


_INODE = 9
"""Where a row of /proc/net/tcp has the number of the socket; the two addresses stand before."""

MAX_CONNECTIONS = 8 << 20
"""Bytes of such a table that are read: some 50,000 connections, more than which hardly any host has."""

_FROM = ("reads", "waits for")
"""Verbs for what a process gets from a descriptor."""


def _named_pipe(verb: str, descriptor: Descriptor, target: str) -> Waited | None:
    """Return who has the other end of a pipe that has a path; None for another file."""
    if target.startswith("/dev/") or not looked_up(target).is_pipe:
        return None
    others = other_ends(target, reads=verb in _FROM)
    only = others[0] if len(others) == 1 else None
    way = "from" if verb in _FROM else "to"
    whom = f" {way} {_processes(others)}" if others else _nobody(verb in _FROM)
    return WaitKind.FILE, f"{verb} the pipe {printable(target)}{descriptor.stream}{whom}", only


def _pipe(verb: str, descriptor: Descriptor, target: str) -> Waited:
    if verb == "writes to":
        return _written(descriptor, target)
    if not descriptor.is_own:
        return _read_by_other(verb, descriptor, target)
    others = children()
    knows_all = len(others) < MAX_CHILDREN
    for child in others:
        targets, are_all = _targets(str(child), MAX_DESCRIPTORS)
        if target in targets:
            text = f"{verb} the output of the process {command_of(child)}{descriptor.stream}"
            return WaitKind.CHILD, text, child
        knows_all = knows_all and are_all
    writers = other_ends(target, reads=True)
    if writers and os.getpid() not in writers:
        only = writers[0] if len(writers) == 1 else None
        return WaitKind.CHILD, f"{verb} a pipe from {_processes(writers)}{descriptor.stream}", only
    if _is_input(descriptor, target):
        return WaitKind.FILE, f"waits for input at {_STREAMS[0]}"
    whose = " of its own process" if writers else " whose other end is in no child process" if knows_all else ""
    return WaitKind.UNKNOWN, f"{verb} a pipe{whose}"


def _read_by_other(verb: str, descriptor: Descriptor, target: str) -> Waited:
    writers = other_ends(target, reads=True)
    whom = f" from {_processes(writers)}" if writers else ""
    return WaitKind.CHILD, f"{verb} a pipe{descriptor.stream}{whom}", writers[0] if len(writers) == 1 else None


def _written(descriptor: Descriptor, target: str) -> Waited:
    """Return who should read the pipe that a thread writes to: whoever has its other end, here or elsewhere."""
    # Another process is in this call for so long only if the pipe is full.
    is_full = not (descriptor.is_own and _has_room(descriptor.number))
    pipe = f"a {'full ' * is_full}pipe{descriptor.stream}"
    readers = other_ends(target, reads=False)
    if not readers:
        kind = WaitKind.CHILD if is_full else WaitKind.UNKNOWN
        return kind, f"writes to {pipe}; who reads it is not known"
    return WaitKind.CHILD, f"writes to {pipe} to {_processes(readers)}", readers[0] if len(readers) == 1 else None


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


def _targets(process: str, most: int) -> tuple[list[str], bool]:
    """Return what the descriptors of a process stand for, of so many at most, and whether these are all."""
    folder = f"/proc/{process}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - no pathlib in a rank
    except OSError:
        return [], False
    found = []
    for name in names[:most]:
        # One of them was the list's own, and is closed by now; others may be, too.
        with suppress(OSError):
            found.append(os.readlink(f"{folder}/{name}"))  # noqa: PTH115
    return found, len(names) <= most


def _addresses(descriptor: Descriptor) -> tuple[str, str]:
    """Return the own address of a socket of this process and its peer's; empty where it has none."""
    import _socket

    if not descriptor.is_own:
        return "", ""

    # The family is asked of the kernel, since addresses are read by it. The type makes no difference, but without
    # SOCK_NONBLOCK a program with a default time-out of sockets would have the descriptor made non-blocking.
    try:
        asked = _socket.socket(-1, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK, 0, descriptor.number)
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
    return printable(os.fsdecode(address)) if isinstance(address, (str, bytes)) else ""
