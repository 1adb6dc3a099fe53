"""Files of /proc and of control groups, as the kernel writes them.

This module imports only what a bare interpreter has loaded anyway: a guard reads it from its start on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

CGROUPS = "/sys/fs/cgroup"

TICKS = os.sysconf("SC_CLK_TCK")
"""Units of a second in which stat files count."""

YAMA_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
"""What Linux's Yama allows: 1 lets a process be traced by nobody but its ancestors and those that it names."""

UNLIMITED = 1 << 60
"""Bytes from which on a limit is none: version 1 of control groups writes nearly 2**63 for no limit."""

_MAX_DEPTH = 16
"""Groups around each other that are looked at."""

_LIMITS = ("memory.max", "memory.limit_in_bytes")
_COUNTS = ("memory.events", "memory.oom_control")
"""Files of version 2 and of version 1."""


def read_proc(path: str, most: int = 65536) -> str:
    """Return a file of /proc or of a control group, of so many bytes at most; empty if it can't be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        # The kernel gives a page at a time.
        found = os.read(descriptor, most)
        while len(found) < most and (more := os.read(descriptor, most - len(found))):
            found += more
        return found.decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def fields_of(path: str, separator: str = ":") -> dict[str, str]:
    """Return the lines of a file, by the names before the separator."""
    lines = (line.partition(separator) for line in read_proc(path).splitlines())
    return {name: value.strip() for name, _, value in lines}


def number_in(text: str) -> int | None:
    """Return a number; None for another text."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def stat_of(process: int | str, proc: str = "/proc") -> tuple[str, list[str]]:
    """Return the name of a process, or of ``PID/task/TID``, and its words from the state on; none if it is gone."""
    # "pid (name) state parent …": the name may hold any character, even parentheses.
    before, _, after = read_proc(f"{proc}/{process}/stat").rpartition(")")
    return before.partition("(")[2], after.split()


def word_at(words: Sequence[str], place: int) -> int | None:
    """Return a number among the words of a stat file, None if it is not there."""
    return number_in(words[place]) if len(words) > place else None


class MemoryGroup:
    """The control group that accounts the memory of a process."""

    def __init__(self, pid: int | str, root: str = CGROUPS, proc: str = "/proc") -> None:
        """Find the group; ``root`` and ``proc`` are where the kernel shows groups and processes."""
        self._folders = group_folders(read_proc(f"{proc}/{pid}/cgroup"), root, "memory", (*_COUNTS, *_LIMITS))

    def limit(self) -> int | None:
        """Return the bytes that the group may hold, None if only the host's memory bounds it."""
        found = [number_in(read_proc(f"{folder}/{name}")) for folder in self._folders for name in _LIMITS]
        for folder in self._folders[:1]:
            found.append(number_in(fields_of(f"{folder}/memory.stat", " ").get("hierarchical_memory_limit", "")))
        return min((size for size in found if size is not None and size < UNLIMITED), default=None)

    def kills(self) -> int | None:
        """Return how often the kernel has ended a process of the group for want of memory, None if it doesn't tell."""
        texts = (fields_of(f"{folder}/{name}", " ").get("oom_kill") for folder in self._folders[:1] for name in _COUNTS)
        return next((number_in(text) for text in texts if text is not None), None)


def group_folders(text: str, root: str, controller: str, names: Sequence[str]) -> list[str]:
    """Return the folders of the control groups of a process that a controller has, the innermost first.

    ``text`` is the process's list of groups. The first folder is one that has a file of these ``names``.
    A container may see its own group as the top, under a path that is the host's.
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
