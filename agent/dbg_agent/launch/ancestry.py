"""Which processes are above one: those that have started it, as far as ``/proc`` tells."""

from __future__ import annotations

import os
from collections.abc import Iterator

MAX_ANCESTORS = 16
"""Processes looked at above a rank; shells and containers between a launcher and its rank are fewer."""

ANCESTRY_SECONDS = 1.0
"""Seconds that a look at those may keep the program: it takes a millisecond, or never ends."""

_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""Inode of the first process-id namespace: PROC_PID_INIT_INO of Linux."""


def ancestors(pid: int) -> tuple[int, ...]:
    """Return the process ids above ``pid``, the parent first, at most :data:`MAX_ANCESTORS`.

    It ends early where ``/proc`` says nothing, and is empty without one. Any thread; never raises.
    """
    return tuple(ancestor for ancestor, _ in processes_above(pid))


KNOWN_ABOVE: dict[int, list[tuple[int, str]]] = {}
"""What was found above a process when it was first asked for."""


def remembered_above(pid: int) -> list[tuple[int, str]]:
    """Return what :func:`processes_above` has yielded when it was first asked of this process.

    /proc may keep whoever looks at another process; after a second there is nothing known above this one.
    """
    if pid not in KNOWN_ABOVE:
        from ..bounded import within

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
    """Return the parent and the name of a process; 0 and nothing if that can't be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return 0, ""
    # "pid (name) state parent …", where the name may hold anything, parentheses too.
    before, _, after = text.rpartition(")")
    fields = after.split()
    return int(fields[1]) if len(fields) > 1 else 0, before.partition("(")[2]


def sees_all_processes() -> bool:
    """Say whether process ids here are those a launcher outside any container has written down."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE  # noqa: PTH116
    except OSError:
        return False
