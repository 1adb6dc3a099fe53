"""The ancestors of a process, as far as ``/proc`` tells."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dbg_agent.launch.proc import stat_of

MAX_ANCESTORS = 16
"""Ancestors of a rank that are looked at. Shells and containers between a launcher and its rank are fewer."""

ANCESTRY_SECONDS = 1.0
"""Seconds that a look at the ancestors may block the program: it takes a millisecond, or never ends."""

_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""Inode of the first process-id namespace: PROC_PID_INIT_INO of Linux."""


def ancestors(pid: int) -> tuple[int, ...]:
    """Return the process ids above ``pid``, the parent first, at most :data:`MAX_ANCESTORS`.

    The result ends early at a process that ``/proc`` doesn't show. Any thread; never raises.
    """
    return tuple(ancestor for ancestor, _ in processes_above(pid))


KNOWN_ABOVE: dict[int, list[tuple[int, str]]] = {}
"""What the first look found above a process, by its id."""


def remembered_above(pid: int) -> list[tuple[int, str]]:
    """Return what :func:`processes_above` yielded at the first look at this process.

    A look at another process in ``/proc`` may block. If it takes longer than a second, the result is empty.
    """
    if pid not in KNOWN_ABOVE:
        from dbg_agent.bounded import within

        KNOWN_ABOVE[pid] = within(ANCESTRY_SECONDS, lambda: list(processes_above(pid)), [])
    return KNOWN_ABOVE[pid]


def processes_above(pid: int) -> Iterator[tuple[int, str]]:
    """Yield the process id and name of each ancestor, the parent first."""
    parent = parent_and_name(pid)[0]
    for _ in range(MAX_ANCESTORS):
        if parent <= 0:
            return
        current, (parent, name) = parent, parent_and_name(parent)
        yield current, name


def parent_and_name(pid: int) -> tuple[int, str]:
    """Return the parent and the name of a process; 0 and "" if they can't be read."""
    name, words = stat_of(pid)
    return int(words[1]) if len(words) > 1 else 0, name


def sees_all_processes() -> bool:
    """Say whether process ids here are the same as those outside of any container, which a launcher writes down."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE  # noqa: PTH116
    except OSError:
        return False
