"""How much memory a process holds, and how often its control group has run out of it, as the kernel tells.

This module imports only what a bare interpreter has loaded anyway: a guard reads it from its start on.
"""

from __future__ import annotations

import os
import time

ROOT = "/sys/fs/cgroup"

UNLIMITED = 1 << 60
"""Bytes from which on a limit is none: version 1 of control groups writes nearly 2**63 for no limit."""

PAGE_BYTES = os.sysconf("SC_PAGESIZE")


class Memory:
    """The memory of one process: ``held`` are its bytes at the last note, ``noted`` when that was, on monotonic time.

    ``kills`` is how often the kernel had ended a process of the control group for want of memory at the note before
    the last, None if it doesn't tell: the last note may be of a process that is being ended.
    """

    def __init__(self, pid: int, root: str = ROOT, proc: str = "/proc") -> None:
        """Find the control group of a process; ``root`` and ``proc`` are where the kernel shows them."""
        self._statm = f"{proc}/{pid}/statm"
        self._folder, self._events = _group_of(read_proc(f"{proc}/{pid}/cgroup"), root)
        self._root = root
        self.held, self.noted = 0, time.monotonic()
        self.kills = self._latest = self._count()
        self.note()

    def note(self) -> None:
        """Read what the process holds now, and how often its group has run out so far."""
        words = read_proc(self._statm).split()
        if len(words) > 1 and words[1] != "0":
            self.held, self.noted = int(words[1]) * PAGE_BYTES, time.monotonic()
            self.kills, self._latest = self._latest, self._count()

    def has_run_out(self) -> bool:
        """Tell whether the kernel has lately ended a process of the group for want of memory."""
        now = self._count()
        return now is not None and self.kills is not None and now > self.kills

    def limit(self) -> int | None:
        """Return the bytes that the group may hold, None if only the host's memory bounds it."""
        found = [_number(read_proc(f"{self._folder}/memory.limit_in_bytes"))]
        found.append(_field(read_proc(f"{self._folder}/memory.stat"), "hierarchical_memory_limit"))
        folder = self._folder
        while folder.startswith(self._root):
            found.append(_number(read_proc(f"{folder}/memory.max")))
            folder = folder.rpartition("/")[0]
        return min((size for size in found if size is not None and size < UNLIMITED), default=None)

    def _count(self) -> int | None:
        return _field(read_proc(self._events), "oom_kill") if self._events else None


def _group_of(text: str, root: str) -> tuple[str, str]:
    """Return the folder of a process's memory group and the file that counts; empty texts if there is none.

    In a container the path may be that of the host while only the container's own group is shown.
    """
    groups = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
    for number, controllers, path in groups:
        if "memory" in controllers.split(","):
            tops, name = [f"{root}/memory"], "memory.oom_control"
        elif number == "0":
            tops, name = [root, f"{root}/unified"], "memory.events"
        else:
            continue
        for folder in [*(top + path.rstrip("/") for top in tops), *tops]:
            if _field(read_proc(f"{folder}/{name}"), "oom_kill") is not None:
                return folder, f"{folder}/{name}"
    return "", ""


def _field(text: str, name: str) -> int | None:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return _number(value)
    return None


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() else None


def read_proc(path: str) -> str:
    """Return a file of /proc or of a control group; empty if it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""
