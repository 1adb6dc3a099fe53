"""Which other processes hold what a thread waits for: the lock of a file, an open file, the other end of a pipe.

Links in /proc are made by the kernel: no file is touched, since its file system may hang. A path of the program's is
looked up in a thread of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from dbg_agent.evidence.system_calls import read_text
from dbg_agent.process.threads import BoundedThreads

MAX_SECONDS = 0.1
"""Seconds after which one search through the processes of the host ends."""


_resolving = BoundedThreads("dbg-agent-path", 1)


def lock_holders(path: str) -> list[int]:
    """Return the processes that hold a lock of a file, of those whose descriptors may be read."""
    lines = [line.split() for line in read_text("/proc/locks", 1 << 20).splitlines()]
    # A line of a process that waits has an arrow before the kind of the lock.
    pids = {int(line[4]) for line in lines if len(line) > 4 and line[1] != "->" and line[4].isdecimal()}
    return _once(pid for pid, number in _descriptors(sorted(pids), path) if "\nlock:" in _info(pid, number))


def openers(path: str) -> list[int]:
    """Return the processes that have a file open, of those whose descriptors may be read."""
    return _once(pid for pid, _ in _descriptors(_all_pids(), path))


def other_ends(pipe: str, *, reads: bool) -> list[int]:
    """Return the processes that have the end of a pipe (``pipe:[4711]``) that writes to a reader, or the reverse."""
    mode = os.O_WRONLY if reads else os.O_RDONLY
    return _once(pid for pid, number in _descriptors(_all_pids(), pipe) if _mode(pid, number) == mode)


def resolved(path: str) -> str:
    """Return a path without symbolic links, as the links in /proc are; as it is if its file system does not answer."""
    found: list[str] = []
    is_done = threading.Event()

    def resolve() -> None:
        found.append(os.path.realpath(path))
        is_done.set()

    with suppress(RuntimeError):
        if _resolving.start(resolve):
            is_done.wait(MAX_SECONDS)
    return found[0] if found else path


def _once(pids: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(pids))


def _descriptors(pids: Iterable[int], target: str) -> Iterator[tuple[int, str]]:
    """Yield each process that has a descriptor of a file, with that descriptor, once for each."""
    until = time.monotonic() + MAX_SECONDS
    for pid in pids:
        with suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - no pathlib in a rank
                if time.monotonic() > until:
                    return
                with suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{number}") == target:  # noqa: PTH115
                        yield pid, number


def _all_pids() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
    return []


def _info(pid: int, number: str) -> str:
    return read_text(f"/proc/{pid}/fdinfo/{number}")


def _mode(pid: int, number: str) -> int | None:
    fields = dict(line.split(":", 1) for line in _info(pid, number).splitlines() if ":" in line)
    try:
        return int(fields.get("flags", ""), 8) & os.O_ACCMODE
    except ValueError:
        return None
