"""Readers for files of /proc and of control groups.

This module imports only modules that a bare interpreter has loaded anyway. The reason is the guard, a small process
next to each rank, which imports this module at its start.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

CGROUPS = "/sys/fs/cgroup"

TICKS = os.sysconf("SC_CLK_TCK")
"""Clock ticks per second, the unit of times in stat files."""

YAMA_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
"""Setting of Linux's Yama. With 1, a process may only be traced by its ancestors and by a process
that it names."""

UNLIMITED = 1 << 60
"""A limit of this many bytes or more is treated as no limit: control groups v1 write nearly 2**63 if there is no
limit."""

_MAX_DEPTH = 16
"""Maximum number of control groups, each nested in the next one, that are read."""

_LIMITS = ("memory.max", "memory.limit_in_bytes")
_COUNTS = ("memory.events", "memory.oom_control")
"""Names of the files with the memory limit, and of those with the number of kills, in control groups v2 and v1."""


def read_proc(path: str, most: int = 65536) -> str:
    """Return the first ``most`` bytes of a file of /proc or of a control group; empty if it can't be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        # The kernel returns at most one page per read.
        found = os.read(descriptor, most)
        while len(found) < most and (more := os.read(descriptor, most - len(found))):
            found += more
        return found.decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def fields_of(path: str, separator: str = ":") -> dict[str, str]:
    """Return the values of a file's lines, by the names before the separator."""
    lines = (line.partition(separator) for line in read_proc(path).splitlines())
    return {name: value.strip() for name, _, value in lines}


def number_in(text: str) -> int | None:
    """Return the number in ``text``, or None if it is not a decimal number."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def stat_of(process: int | str, proc: str = "/proc") -> tuple[str, list[str]]:
    """Return the name of a process, or of a thread ``PID/task/TID``, and its stat fields, beginning with the state.

    Both are empty if the process or thread has ended.
    """
    # "pid (name) state parent …": the name may hold any character, even parentheses.
    before, _, after = read_proc(f"{proc}/{process}/stat").rpartition(")")
    return before.partition("(")[2], after.split()


def word_at(fields: Sequence[str], place: int) -> int | None:
    """Return the number at ``place`` in the fields of a stat file, or None if it is missing."""
    return number_in(fields[place]) if len(fields) > place else None


class MemoryGroup:
    """The control group that accounts for the memory of a process."""

    def __init__(self, pid: int | str, root: str = CGROUPS, proc: str = "/proc") -> None:
        """Find the group; ``root`` and ``proc`` are the mount points of control groups and of /proc."""
        self._folders = group_folders(read_proc(f"{proc}/{pid}/cgroup"), root, "memory", (*_COUNTS, *_LIMITS))

    def limit(self) -> int | None:
        """Return the memory limit of the group in bytes, or None if only the host's memory limits it."""
        found = [number_in(read_proc(f"{folder}/{name}")) for folder in self._folders for name in _LIMITS]
        for folder in self._folders[:1]:
            found.append(number_in(fields_of(f"{folder}/memory.stat", " ").get("hierarchical_memory_limit", "")))
        return min((size for size in found if size is not None and size < UNLIMITED), default=None)

    def kills(self) -> int | None:
        """Return how many processes of the group the kernel has killed for lack of memory, or None if unknown."""
        texts = (fields_of(f"{folder}/{name}", " ").get("oom_kill") for folder in self._folders[:1] for name in _COUNTS)
        return next((number_in(text) for text in texts if text is not None), None)


def group_folders(text: str, root: str, controller: str, names: Sequence[str]) -> list[str]:
    """Return the directories of a process's control groups for this controller, innermost first.

    ``text`` is the process's list of groups. The result begins with the innermost directory that has one of the files
    ``names``. In a container, directories of the listed path may be missing: the list has the path on the host, and the
    container may see its own group as the top.
    """
    for number, controllers, path in (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2):
        if controller in controllers.split(","):
            tops = [f"{root}/{controller}"]
        elif number == "0":
            tops = [root, f"{root}/unified"]
        else:
            continue
        parts = path.strip("/").split("/") if path.strip("/") else []
        for top in tops:
            inner = [f"{top}/{'/'.join(parts[:count])}" for count in range(len(parts), 0, -1)]
            folders = [*inner[:_MAX_DEPTH], top]
            for at, folder in enumerate(folders):
                if any(read_proc(f"{folder}/{name}") for name in names):
                    return folders[at:]
    return []
